"""Levels that a fit has not seen, in the rows that judge it.

Such a row counts with the mean effect m of the levels over the rows of the fit, so that it does
not matter which level was dropped. On the columns x of a category, all 0 in such a row::

    b0 + sum b_l x_l + m (1 - sum x_l)
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from dbselect.errors import DataError, UnknownLevelWarning, warn_caller
from dbselect.record.categories import Category
from dbselect.record.gram import Gram
from dbselect.record.terms import Terms

#: Share of the weight that is taken for nothing beside the rounding of a sum of shares.
ROUNDING_SHARE = 1e-9

Numbers = npt.NDArray[np.float64]


def unseen_in(gram: Gram, terms: Terms) -> list[Category]:
    """Return, and warn of, categories with unseen levels; DataError if shares are not known."""
    if not gram.rows:
        return []
    mean = dict(zip(gram.columns, gram.mean.tolist(), strict=True))
    own = {one.column: one for one in gram.terms.categories}
    found = []
    for category in terms.categories:
        levels = own.get(category.column, category).names
        # A Gram of some of the levels does not show what the other rows have.
        if {*levels} <= mean.keys():
            known = sum(mean.get(name, 0.0) for name in {*category.marked_names})
            if warn_of_share(category, known):
                found.append(category)
    return found


def warn_of_share(category: Category, known: float) -> bool:
    """Return, and warn, whether rows have unseen levels; DataError if shares are not known."""
    if category.rest or 1.0 - known <= ROUNDING_SHARE:
        return False
    told = (
        f"{1.0 - known:.2%} of the rows have a level of '{category.column}' that the fit has not "
        "seen"
    )
    if category.shares is None:
        raise DataError(
            f"{told}, and the sequence was stored without the share of each level in the rows of "
            "the fit, whose mean effect such a level counts as; search again"
        )
    warn_caller(f"{told}; they are judged with the mean effect of its levels", UnknownLevelWarning)
    return True


def with_mean_effects(
    columns: Sequence[str],
    intercept: Numbers,
    coef: Numbers,
    categories: Sequence[Category],
) -> tuple[list[str], Numbers, Numbers]:
    """Return columns and models by which a row that is 0 in a category has its mean effect.

    Intercepts have shape (..., K), coefficients (..., D, K); the categories' columns are added.
    """
    own = {one: one.marked_names for one in categories}
    names = list(dict.fromkeys([*columns, *(name for each in own.values() for name in each)]))
    place = {name: at for at, name in enumerate(names)}
    intercept = intercept.copy()
    padding = [(0, 0)] * coef.ndim
    padding[-2] = (0, len(names) - len(columns))
    coef = np.pad(coef, padding)
    for category, each in own.items():
        if category.rest or category.shares is None:
            continue
        at = [place[name] for name in each]
        mean = np.einsum("...jk,j->...k", coef[..., at, :], category.shares[: len(at)])
        intercept += mean
        coef[..., at, :] -= mean[..., None, :]
    return names, intercept, coef
