"""Zhang (2008), slides: FoBa, forward selection and L1, on a sparse truth and on Boston Housing."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import polars as pl
from mlxtend.data import boston_housing_data
from sklearn.linear_model import lars_path_gram

import dbselect as ds
from reproduce.origin import through_origin, vector
from reproduce.page import Study, claims, lines, prose, spread, table

#: The design of the simulation, as published; the variance of the noise is inferred.
ROWS, WIDTH, TRUE, NOISE_VARIANCE = 100, 500, 5, 0.1
#: Inferred: ten factors have this share of each column's variance.
FACTORS, SHARE = 10, 0.8
#: What else the share might have been.
SHARES = (0.5, 0.7, 0.8, 0.9)
#: Far below the noise, so that five features are always reached.
EPSILON = 1e-4
PUBLISHED = {
    "FoBa": ("0.093 ± 0.02", "0.057 ± 0.2", "0.76 ± 0.98"),
    "forward": ("0.16 ± 0.089", "0.52 ± 0.82", "1.8 ± 1.1"),
    "L1": ("0.25 ± 0.14", "1.1 ± 1", "3.2 ± 0.77"),
}
ERRORS = ("training", "parameter", "selection")

#: Rows to train on, of 506, and the most features that are looked at.
BOSTON_ROWS, MOST = 50, 10
EXAMPLES = {
    "forward": "6 13 4 8 2 3 10 1 7 11",
    "FoBa": "6 13 4 8 -4 2 4 3 -4 4 10 -4 -3 4 1 7",
    "L1": "6 2 13 4 8 10 3 11 7 12 5 9 1 -3 14 3",
}


@dataclass(frozen=True)
class Truth:
    """Rows, and the sparse weights that made them.

    Parameters
    ----------
    X : shape (n, d), columns of norm 1
    y : shape (n,)
    weights : shape (d,)
    """

    X: np.ndarray
    y: np.ndarray
    weights: np.ndarray


def sparse_truth(seed: int, share: float = SHARE) -> Truth:
    """Return columns that ten factors correlate, five of which make the target."""
    rng = np.random.default_rng(seed)
    common = rng.standard_normal((ROWS, FACTORS)) @ rng.standard_normal((FACTORS, WIDTH))
    X = np.sqrt(share / FACTORS) * common
    X += np.sqrt(1 - share) * rng.standard_normal((ROWS, WIDTH))
    X /= np.linalg.norm(X, axis=0)
    weights = np.zeros(WIDTH)
    weights[rng.choice(WIDTH, TRUE, replace=False)] = rng.uniform(0, 10, TRUE)
    y = X @ weights + np.sqrt(NOISE_VARIANCE) * rng.standard_normal(ROWS)
    return Truth(X, y, weights)


def of_five(truth: Truth) -> dict[str, np.ndarray]:
    """Return the weights of each method's model of five features."""
    names = [f"x{j}" for j in range(WIDTH)]
    gram = through_origin(truth.X, truth.y, names)
    foba = ds.foba(gram, "y", epsilon=EPSILON, max_steps=100)
    forward = ds.anytime_sequence(gram, "y", max_groups=TRUE)
    path = l1_path(truth.X, truth.y, most=40)
    shrunk = path[np.flatnonzero((path != 0).sum(axis=1) <= TRUE)[-1]]
    kept = np.flatnonzero(shrunk)
    refitted = np.zeros(WIDTH)
    refitted[kept] = np.linalg.lstsq(truth.X[:, kept], truth.y, rcond=None)[0]
    return {
        "FoBa": vector(foba.at(size=TRUE), names),
        "forward": vector(forward.at(size=TRUE), names),
        "L1": refitted,
        "L1, shrunk": shrunk,
    }


def l1_path(X: np.ndarray, y: np.ndarray, most: int) -> np.ndarray:
    """Return the corners of the lasso's path, without an intercept; shape (corners, d)."""
    return lars_path_gram(X.T @ y, X.T @ X, n_samples=len(y), method="lasso", max_iter=most)[2].T


def errors(truth: Truth, weights: np.ndarray) -> tuple[float, float, int]:
    """Return the mean squared error, the weights' squared error by n, and features missed."""
    missed = np.count_nonzero(truth.weights) - np.count_nonzero(truth.weights * weights)
    return (
        float(((truth.y - truth.X @ weights) ** 2).mean()),
        float(((weights - truth.weights) ** 2).sum() / ROWS),
        int(missed),
    )


def simulated(seeds: range, share: float = SHARE) -> pl.DataFrame:
    """Return the errors of each method, one row a run and method."""
    rows = []
    for seed in seeds:
        truth = sparse_truth(seed, share)
        for method, weights in of_five(truth).items():
            found = dict(zip(ERRORS, errors(truth, weights), strict=True))
            rows.append({"seed": seed, "method": method, **found})
    return pl.DataFrame(rows)


def simulation(study: Study) -> Iterator[str]:
    """Repeat the table of the simulation."""
    seeds = range(study.of(50, 2))
    found = simulated(seeds)
    means = {key[0]: part.mean() for key, part in found.group_by("method")}
    yield "## FoBa: a sparse truth"
    yield prose(
        f"""
        Published: d = {WIDTH}, n = {ROWS}, five true features with weights uniform in 0 to 10, a
        "moderately correlated design", noise .1, top five features, 50 runs. Here {len(seeds)}
        runs. Inferred: columns of norm 1, as the slides normalise; .1 is the variance of the
        noise, since a training error of .093 cannot be that of a deviation of .1; the parameter
        error is divided by n; the selection error counts true features that are missed. The
        design has {FACTORS} factors with {SHARE:g} of each column's variance: of the shares below
        the one that comes nearest to all nine figures. L1 is LARS with the lasso's removals
        (scikit-learn), its five features fitted anew.
        """
    )
    yield table(
        {
            "method": method,
            **{
                f"{name} error{which}": figure
                for name, published in zip(ERRORS, PUBLISHED.get(method, ("",) * 3), strict=True)
                for which, figure in (
                    (", published", published),
                    ("", spread(found.filter(method=method)[name])),
                )
            },
        }
        for method in (*PUBLISHED, "L1, shrunk")
    )
    yield "How much the share of the factors matters: parameter error and selection error."
    few = range(study.of(20, 1))
    by_share = {share: simulated(few, share) for share in study.of(SHARES, SHARES[:1])}
    yield table(
        {
            "share": share,
            **{
                method: f"{spread(part['parameter'])}; {spread(part['selection'])}"
                for method in PUBLISHED
                for part in (runs.filter(method=method),)
            },
        }
        for share, runs in by_share.items()
    )
    order = list(PUBLISHED)
    yield claims(
        {
            f"{name} error: FoBa below forward below L1": (
                bool(np.all(np.diff([means[method][name][0] for method in order]) > 0)),
                ", ".join(f"{means[method][name][0]:.3g}" for method in order),
            )
            for name in ERRORS
        }
    )


def boston_rows() -> tuple[np.ndarray, np.ndarray, list[str]]:
    """Return the 13 features and a constant, the prices, and names "1" to "14"."""
    X, y = boston_housing_data()
    return np.column_stack([X, np.ones(len(y))]), y, [str(j) for j in range(1, 15)]


def trace(sequence: ds.results.Sequence) -> str:
    """Return the steps as the slides print them: a minus for a feature given back."""
    steps = sequence.steps.slice(1)
    return " ".join(
        ("-" if action == "remove" else "") + group
        for action, group in zip(steps["action"], steps["group"], strict=True)
    )


def l1_trace(path: np.ndarray) -> str:
    """Return the steps of the lasso's path.

    What is not 0 at the end of a piece came at its begin, what is 0 there went at its end.
    """
    held = path != 0
    return " ".join(
        f"{sign}{j + 1}"
        for before, now in itertools.pairwise(held)
        for sign, changed in (("", ~before & now), ("-", before & ~now))
        for j in np.flatnonzero(changed)
    )


def split(seed: int) -> tuple[dict[str, str], pl.DataFrame]:
    """Return the steps of each method on 50 random rows, and its errors by features held."""
    X, y, names = boston_rows()
    order = np.random.default_rng(seed).permutation(len(y))
    train, test = order[:BOSTON_ROWS], order[BOSTON_ROWS:]
    gram = through_origin(X[train], y[train], names)
    # Of a column that is 0 in all of the 50 rows nothing is taken.
    norms = np.maximum(np.linalg.norm(X[train], axis=0), 1e-300)
    path = l1_path(X[train] / norms, y[train], most=60) / norms
    sequences = {
        "FoBa": ds.foba(gram, "y"),
        "forward": ds.anytime_sequence(gram, "y"),
        "backward": ds.backward(gram, "y"),
    }
    rows = []
    for size in range(1, MOST + 1):
        weights = {
            name: vector(sequence.at(size=size), names) for name, sequence in sequences.items()
        }
        corners = np.flatnonzero((path != 0).sum(axis=1) == size)
        if len(corners):
            weights["L1"] = path[corners[-1]]
        for method, w in weights.items():
            squares = (y - X @ w) ** 2
            parts = {"training": squares[train].mean(), "test": squares[test].mean()}
            rows.append({"seed": seed, "method": method, "features": size, **parts})
    traces = {name: trace(sequence) for name, sequence in sequences.items()}
    return {**traces, "L1": l1_trace(path)}, pl.DataFrame(rows)


def common_start(first: str, second: str) -> int:
    """Return how many steps two traces begin with alike."""
    alike = [a == b for a, b in zip(first.split(), second.split(), strict=False)]
    return alike.index(False) if False in alike else len(alike)


def boston(study: Study) -> Iterator[str]:
    """Repeat the paths and the errors on Boston Housing."""
    seeds = range(study.of(200, 2))
    traces, parts = zip(*(split(seed) for seed in seeds), strict=True)
    means = pl.concat(parts).group_by("method", "features").mean().sort("method", "features")
    yield "## FoBa: Boston Housing"
    yield prose(
        f"""
        Published: 13 features and a constant, 50 random rows to train on and 456 to test; steps
        of one split, and curves of errors that the text of the slides does not hold. Here
        {len(seeds)} splits. As the constant is a candidate, there is no intercept: the Gram is
        that of the rows and their mirror images (-x, -y), whose means are 0, so that centring
        changes nothing. FoBa runs to the end (epsilon 0); L1 is LARS on columns of one norm, its
        coefficients as they are.
        """
    )
    yield "The published steps, and the split of these that begins most alike:"
    nearest = {
        method: max(traces, key=lambda each, m=method: common_start(each[m], EXAMPLES[m]))
        for method in EXAMPLES
    }
    yield table(
        {
            "method": method,
            "published": EXAMPLES[method],
            "nearest split": " ".join(nearest[method][method].split()[:24]),
            "steps alike": common_start(nearest[method][method], EXAMPLES[method]),
            "removals a split": spread(each[method].count("-") for each in traces),
        }
        for method in EXAMPLES
    )
    methods = ["FoBa", "forward", "L1", "backward"]
    both = means.filter(pl.col("method").is_in(methods))
    titles = {"training": "training error", "test": "test error"}
    left, right = (
        lines(
            both,
            "features",
            which,
            "method",
            order=methods,
            titles=("features", title),
            log=(False, True),
        )
        for which, title in titles.items()
    )
    yield study.picture(
        "foba_boston", "Training and test error by features held, means over splits", left | right
    )
    yield table(
        {
            "features": size,
            **{
                f"{which}, {method}": float(means.filter(method=method, features=size)[which][0])
                for which in titles
                for method in methods
            },
        }
        for size in (2, 4, 6, 8, 10)
    )
    wide = means.pivot("method", index="features", values=["training", "test"])
    best = {method: float(wide[f"test_{method}"].min()) for method in methods}
    rooms = sum(each["FoBa"].startswith("6 13") for each in traces)
    removing = sum("-" in each["FoBa"] for each in traces)
    yield claims(
        {
            "rooms (6) come first, then status (13)": (
                rooms > len(traces) / 2,
                f"FoBa begins with 6 13 in {rooms} of {len(traces)} splits",
            ),
            "FoBa gives features back": (
                removing > 0,
                f"in {removing} of {len(traces)} splits; four times in the published one",
            ),
            "FoBa's training error is at most that of forward, at every size": (
                bool((wide["training_FoBa"] <= wide["training_forward"] + 1e-9).all()),
                "means by size above",
            ),
            "FoBa is closer to L0 than L1 is: its training error is lower, at every size": (
                bool((wide["training_FoBa"] < wide["training_L1"]).all()),
                "means by size above",
            ),
            "L0 does not always predict better: some other method has the least test error": (
                min(best, key=best.__getitem__) != "FoBa",
                ", ".join(f"{method} {value:.1f}" for method, value in best.items()),
            ),
        }
    )
