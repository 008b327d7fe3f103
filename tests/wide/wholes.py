"""Searches without the whole Gram beside those of the whole Gram."""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

import dbselect as ds

#: Sums of the same products in another order.
ROUNDING = 1e-10
#: Sources that can be read only once.
ONE_SHOT = ("arrow reader", "arrow stream")


def assert_same(wide: ds.results.WideSequence, full: ds.results.Sequence) -> None:
    """Compare a wide search with that of the full Gram, whatever it added and removed."""
    assert isinstance(wide, ds.results.WideSequence)
    names = ["step", "action", "group", "cost", "spent"]
    assert wide.steps.select(names).equals(full.steps.select(names))
    for name in ("gain", "explained", "r2"):
        np.testing.assert_allclose(wide.steps[name], full.steps[name], atol=ROUNDING)
    assert [r.choice for r in wide.records] == [r.choice for r in full.records]
    assert (wide.stop, set(wide.aliased)) == (full.stop, set(full.aliased))
    for step in range(len(full.spent)):
        one, other = wide.model(step), full.model(step)
        np.testing.assert_allclose(one.intercept, other.intercept, rtol=1e-6, atol=1e-6)
        assert set(one.coefficients) == set(other.coefficients)
        for name, value in other.coefficients.items():
            np.testing.assert_allclose(one.coefficients[name], value, rtol=1e-6, atol=1e-8)


def both(
    source: Any,
    target: str,
    *given: Any,
    method: Callable[..., Any] = ds.anytime_sequence,
    **options: Any,
) -> ds.results.WideSequence:
    """Search twice, compare, and return what the wide search found."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ds.errors.SelectionWarning)
        wide = method(source, target, *given, gram="lazy", **options)
        assert_same(wide, method(source, target, *given, gram="full", **options))
    return wide
