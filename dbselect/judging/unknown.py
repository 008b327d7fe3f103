"""Levels that a fit has not seen, in the rows that judge it."""

from dbselect.errors import UnknownLevelWarning, warn_caller
from dbselect.record.categories import Category
from dbselect.record.gram import Gram
from dbselect.record.terms import Terms

#: Share of the weight that is taken for nothing beside the rounding of a sum of shares.
ROUNDING_SHARE = 1e-9


def warn_of_unknown(gram: Gram, terms: Terms) -> None:
    """Warn of rows of a Gram that are 0 in all columns of a category.

    Parameters
    ----------
    gram : of the rows, with the columns that they have of the categories
    terms : of what is judged
    """
    for category in terms.categories:
        names = {*category.names, category.missing}
        both = zip(gram.columns, gram.mean.tolist(), strict=True)
        warn_of_share(category, sum(mean for name, mean in both if name in names))


def warn_of_share(category: Category, known: float) -> None:
    """Warn where a share of the rows below 1 has a level that the fit has seen."""
    if not category.rest and 1.0 - known > ROUNDING_SHARE:
        warn_caller(
            f"{1.0 - known:.2%} of the rows have a level of '{category.column}' that the fit "
            "has not seen; they are judged with all its levels 0",
            UnknownLevelWarning,
        )
