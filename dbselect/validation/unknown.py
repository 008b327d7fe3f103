"""Levels of a category in new rows that were not in the fit.

Such a row gets the mean effect m of the levels over the rows of the fit, so that the dropped
level does not matter. With the columns x of a category, all 0 in such a row::

    b0 + sum b_l x_l + m (1 - sum x_l)
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from dbselect.errors import DataError, UnknownLevelWarning, warn_caller
from dbselect.record.categories import Category
from dbselect.record.gram import Gram
from dbselect.record.terms import Terms

#: Share of the weight that counts as 0, for the rounding of a sum of shares.
ROUNDING_SHARE = 1e-9

Numbers = npt.NDArray[np.float64]


def unseen_in(gram: Gram, terms: Terms) -> list[Category]:
    """Return categories with unseen levels, with a warning; DataError if shares are missing."""
    if not gram.rows:
        return []
    mean = dict(zip(gram.columns, gram.mean.tolist(), strict=True))
    by_column = {category.column: category for category in gram.terms.categories}
    unseen = []
    for category in terms.categories:
        levels = by_column.get(category.column, category).names
        # A Gram with only some of the level columns says nothing about the other rows.
        if {*levels} <= mean.keys():
            seen_share = sum(mean.get(name, 0.0) for name in {*category.marked_names})
            if warn_of_share(category, seen_share):
                unseen.append(category)
    return unseen


def warn_of_share(category: Category, known: float) -> bool:
    """Whether rows have unseen levels, with a warning; DataError if shares are missing."""
    if category.rest or 1.0 - known <= ROUNDING_SHARE:
        return False
    text = (
        f"{1.0 - known:.2%} of the rows have a level of '{category.column}' that the fit has not "
        "seen"
    )
    if category.shares is None:
        raise DataError(
            f"{text}, and the sequence was stored without the share of each level in the rows of "
            "the fit, whose mean effect such a level counts as; search again"
        )
    warn_caller(f"{text}; they are judged with the mean effect of its levels", UnknownLevelWarning)
    return True


def with_mean_effects(
    columns: Sequence[str],
    intercept: Numbers,
    coef: Numbers,
    categories: Sequence[Category],
) -> tuple[list[str], Numbers, Numbers]:
    """Rewrite models so that a row that is 0 in all levels gets the category's mean effect.

    Intercepts have shape (..., K), coefficients (..., D, K); missing level columns are added.
    """
    names_of = {category: category.marked_names for category in categories}
    names = list(dict.fromkeys([*columns, *(n for levels in names_of.values() for n in levels)]))
    place = {name: at for at, name in enumerate(names)}
    intercept = intercept.copy()
    padding = [(0, 0)] * coef.ndim
    padding[-2] = (0, len(names) - len(columns))
    coef = np.pad(coef, padding)
    for category, levels in names_of.items():
        if category.rest or category.shares is None:
            continue
        at = [place[name] for name in levels]
        mean = np.einsum("...jk,j->...k", coef[..., at, :], category.shares[: len(at)])
        intercept += mean
        coef[..., at, :] -= mean[..., None, :]
    return names, intercept, coef
