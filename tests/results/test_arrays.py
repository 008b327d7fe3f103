"""Arrays of results belong to who holds the result."""

import numpy as np
import polars as pl
import pytest

import dbselect as ds

RNG = np.random.default_rng(0)
FRAME = pl.DataFrame(RNG.standard_normal((40, 5)), schema=list("abcdy"))
GRAM = ds.gram(FRAME)

SEQUENCE = ("coef", "intercept", "explained", "spent", "r2")
RESULTS = {
    "anytime_sequence": (lambda: ds.anytime_sequence(GRAM, "y"), SEQUENCE),
    "foba": (lambda: ds.foba(GRAM, "y"), SEQUENCE),
    "rows": (
        lambda: ds.Problem(FRAME, "y", family="gaussian(log)").anytime_sequence(),
        ("coef", "intercept", "explained", "spent"),
    ),
    "lasso_path": (
        lambda: ds.lasso_path(GRAM, "y"),
        ("penalties", "lengths", "intercept", "df", "r2", "gap", "violation"),
    ),
    "sght": (lambda: ds.sght(GRAM, "y", max_columns=2, max_groups=2), ("history",)),
}


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", RESULTS)
def test_arrays_of_a_result_may_be_written_to(name):
    call, fields = RESULTS[name]
    result = call()
    for field in fields:
        getattr(result, field)[0] = 7.0
        assert np.all(getattr(result, field)[0] == 7.0)
