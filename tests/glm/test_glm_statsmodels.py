"""The cases that statsmodels has recorded of R and Stata for generalised linear models.

Its test modules are part of it: ``genmod/tests/results``. Every class of ``results_glm`` is here or
in `OTHERS`, with the reason why it is not.
"""

import inspect
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import polars as pl
import pytest

import dbselect as ds

datasets = pytest.importorskip("statsmodels.datasets")
recorded = pytest.importorskip("statsmodels.genmod.tests.results.results_glm")
weighted = pytest.importorskip("statsmodels.genmod.tests.results.results_glm_poisson_weights")

#: Recorded classes that are no case of ours.
OTHERS = {
    "Cancer": "rows of others",
    "Medpar1": "rows of others",
    "Wfs": "no rows were recorded with it",
    "CpunishTweediePower15": "identity through the origin: no mean at the predictor 0",
    "CpunishTweediePower2": "identity through the origin: no mean at the predictor 0",
}
#: Digits that were recorded: most have seven, some four.
DIGITS, FEW_DIGITS = 3e-5, 3e-4

Case = tuple[pl.DataFrame, str, dict[str, Any]]


def frame_of(y: Any, X: Any, **more: Any) -> pl.DataFrame:
    """Return rows with the columns x0, x1, ...; a column of ones is left out."""
    X, y = np.asarray(X, float), np.asarray(y, float)
    X = X[:, [j for j in range(X.shape[1]) if not (X[:, j] == 1).all()]]
    return pl.DataFrame({f"x{j}": column for j, column in enumerate(X.T)} | {"y": y} | more)


def longley() -> Case:
    data = datasets.longley.load()
    # Without an offset family gaussian is the linear model of a Gram.
    return frame_of(data.endog, data.exog, none=np.zeros(16)), "gaussian", {"offset": "none"}


def curve() -> tuple[Any, Any]:
    """Return the columns of the two gaussian cases, and their noise."""
    x = np.arange(100)
    return np.c_[x, x**2], 0.001 * np.random.RandomState(54321).randn(100)


def gaussian_log() -> Case:
    X, noise = curve()
    y = np.exp(-(-1.0 + 0.02 * X[:, 0] + 0.0001 * X[:, 1])) + noise
    return frame_of(y, X), "gaussian(log)", {}


def gaussian_inverse() -> Case:
    X, _ = curve()
    draw = np.random.RandomState(54321)
    draw.randn(100)  # statsmodels draws another target before
    y = 1.0 / (1.0 + 0.02 * X[:, 0] + 0.001 * X[:, 1]) + 0.001 * draw.randn(100)
    return frame_of(y, X), "gaussian(inverse)", {}


def star98() -> Case:
    """Return a row for the successes of each district, and one for the failures."""
    data = datasets.star98.load()
    counts, X = np.asarray(data.endog), np.asarray(data.exog)
    y = np.repeat([1.0, 0.0], len(X))
    rows = frame_of(y, np.vstack([X, X]), n=counts.T.ravel())
    return rows, "binomial", {"weight": "n"}


def of_rows(name: str, family: str) -> Callable[[], Case]:
    def case() -> Case:
        own = getattr(recorded, name)()
        return frame_of(own.endog, own.exog), family, {}

    return case


def scotvote() -> Case:
    data = datasets.scotland.load()
    return frame_of(data.endog, data.exog), "gamma(inverse)", {}


def cpunish_rows() -> tuple[Any, Any]:
    data = datasets.cpunish.load()
    X = np.array(data.exog, float)
    X[:, 3] = np.log(X[:, 3])
    return np.asarray(data.endog), X


def cpunish() -> Case:
    return frame_of(*cpunish_rows()), "poisson", {}


def cpunish_offset() -> Case:
    return frame_of(*cpunish_rows(), hours=np.full(17, 100.0)), "poisson", {"exposure": "hours"}


def inverse_gaussian_identity() -> Case:
    own = recorded.Medpar1()
    return frame_of(own.endog, own.exog), "inverse_gaussian(identity)", {}


def committee() -> Case:
    data = datasets.committee.load()
    X = np.array(data.exog, float)
    X[:, 2] = np.log(X[:, 2])
    return frame_of(data.endog, np.c_[X, X[:, 2] * X[:, 1]]), "negative_binomial(1)", {}


def tweedie_log_1() -> Case:
    data = datasets.cpunish.load_pandas()
    X = data.exog[["INCOME", "SOUTH"]]
    return frame_of(data.endog, X), "poisson", {"intercept": False}


def fair() -> Case:
    data = datasets.fair.load_pandas()
    X = data.exog[["rate_marriage", "age", "yrs_married"]]
    return frame_of(data.endog, X), "tweedie(1.5)", {"intercept": False}


CASES = {
    "Longley": longley,
    "GaussianLog": gaussian_log,
    "GaussianInverse": gaussian_inverse,
    "Star98": star98,
    "Lbw": of_rows("Lbw", "binomial"),
    "Scotvote": scotvote,
    "CancerLog": of_rows("CancerLog", "gamma"),
    "CancerIdentity": of_rows("CancerIdentity", "gamma(identity)"),
    "Cpunish": cpunish,
    "Cpunish_offset": cpunish_offset,
    "InvGauss": of_rows("InvGauss", "inverse_gaussian(inverse_squared)"),
    "InvGaussLog": of_rows("InvGaussLog", "inverse_gaussian"),
    "InvGaussIdentity": inverse_gaussian_identity,
    "Committee": committee,
    "CpunishTweedieLog1": tweedie_log_1,
    "FairTweedieLog15": fair,
}
#: Scales of the variance that were estimated of families that have none here; else it is 1.
SCALES = {"Committee": recorded.Committee().scale, "CpunishTweedieLog1": None}
#: Records whose constant comes first; in the others it is the last.
CONSTANT_FIRST = ("GaussianLog", "GaussianInverse", "Cpunish_offset")
#: Those of fits that ended early, or with few digits.
ROUGH = (
    "InvGauss",
    "InvGaussLog",
    "InvGaussIdentity",
    "Committee",
    "Cpunish_offset",
    "CancerIdentity",
)


def fitted(rows: pl.DataFrame, family: str, options: dict[str, Any]) -> ds.results.GlmModel:
    names = [name for name in rows.columns if name.startswith("x")]
    return ds.fit(rows, "y", names, family=family, **options)


def in_their_order(found: ds.results.GlmModel, name: str = "") -> tuple[np.ndarray, np.ndarray]:
    """Return estimates and standard errors in the order of a record."""
    numbers = found.summary().select("estimate", "std_error").to_numpy()
    if found.has_intercept and name not in CONSTANT_FIRST:
        numbers = np.vstack([numbers[1:], numbers[:1]])
    return numbers[:, 0], numbers[:, 1]


def test_every_recorded_class_is_told():
    every = {name for name, _ in inspect.getmembers(recorded, inspect.isclass)}
    own = {name for name in every if getattr(recorded, name).__module__ == recorded.__name__}
    assert own == {*CASES, *OTHERS}
    assert (len(CASES), len(OTHERS)) == (16, 5)


@pytest.mark.filterwarnings("ignore::dbselect.errors.LeakageWarning")  # hardly any noise
@pytest.mark.parametrize("name", CASES)
def test_recorded_cases(name):
    rows, family, options = CASES[name]()
    truth = getattr(recorded, name)()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ds.errors.ConditionWarning)  # Longley is known for it
        found = fitted(rows, family, options)
    assert found.status.name == "CONVERGED"
    estimates, errors = in_their_order(found, name)
    digits = FEW_DIGITS if name in ROUGH else DIGITS
    np.testing.assert_allclose(estimates, truth.params, rtol=digits, atol=1e-7)
    scale = SCALES.get(name, 1.0)
    if scale is not None:
        np.testing.assert_allclose(np.sqrt(scale) * errors, truth.bse, rtol=10 * digits)
    if name == "Star98":  # of counts, the deviance is against each district's own share
        explained = truth.null_deviance - truth.deviance
        assert found.null_deviance - found.deviance == pytest.approx(explained, rel=1e-7)
        return
    assert found.deviance == pytest.approx(truth.deviance, rel=1e-6)
    if found.has_intercept and name != "Cpunish_offset":
        # Of GaussianLog statsmodels, too, has one decimal of R's.
        digits = 5e-4 if name == "GaussianLog" else 2e-6
        assert found.null_deviance == pytest.approx(truth.null_deviance, rel=digits)
    # Of many rows the first ones were recorded.
    means = np.asarray(truth.fittedvalues)[:17]
    np.testing.assert_allclose(found.predict(rows)[:17], means, rtol=2e-3)
    if found.dispersion != 1.0 and hasattr(truth, "scale"):
        assert found.dispersion == pytest.approx(truth.scale, rel=1e-5)


def test_the_recorded_aic_of_the_binomial():
    rows, family, _ = CASES["Lbw"]()
    groups = {"all": [name for name in rows.columns if name != "y"]}
    seq = ds.anytime_sequence(rows, "y", groups, family=family)
    assert seq.criteria()["aic"][-1] == pytest.approx(recorded.Lbw().aic_R, rel=1e-7)


WEIGHTS = np.array([1, 1, 1, 2, 2, 2, 3, 3, 3, 1, 1, 1, 2, 2, 2, 3, 3], float)


@pytest.mark.parametrize("kind", ["none", "fweight", "aweight"])
def test_recorded_weights_of_stata(kind):
    y, X = cpunish_rows()
    weights = {"none": np.ones(17), "fweight": WEIGHTS, "aweight": WEIGHTS / WEIGHTS.sum() * 17}
    found = fitted(frame_of(y, X, w=weights[kind]), "poisson", {"weight": "w"})
    truth = getattr(weighted, f"results_poisson_{kind}_nonrobust")
    estimates, errors = in_their_order(found)
    np.testing.assert_allclose(estimates, truth.params, rtol=1e-5)
    np.testing.assert_allclose(errors, truth.bse, rtol=1e-4)
    assert found.deviance == pytest.approx(truth.deviance, rel=1e-7)
