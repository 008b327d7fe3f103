"""The same job by other libraries: the five columns of nineteen that explain most.

``python bench/beside.py`` prints the table of docs/comparison.md. It takes what is installed of
scikit-learn, mlxtend, abess, statsmodels and H2O (which needs Java) and names what is not. Each
job runs in a process of its own: seconds are the median of three after a first, data and library
loaded before; CPU seconds count all threads of the process and, of H2O, of its server.
"""

import json
import subprocess
import sys
import time
from collections.abc import Callable
from statistics import median

import polars as pl
from tables import columns, table

ROWS, WIDTH, PICKS, REPEATS = 200_000, 20, 5, 3
NAMES = columns(WIDTH)

#: A job returns the columns that it found.
Job = Callable[[], list[str]]


def _rows() -> tuple:
    frame = pl.read_parquet(table(ROWS, WIDTH)).select(NAMES)
    return frame.select(NAMES[1:]).to_numpy(), frame["x0"].to_numpy()


def dbselect() -> Job:
    """From the file: a pass, and a sequence."""
    import dbselect as ds

    path = table(ROWS, WIDTH)
    return lambda: ds.anytime_sequence(ds.gram(path, NAMES), "x0", max_groups=PICKS).at().groups


def dbselect_proven() -> Job:
    """From the file: a pass, and the best five, proven."""
    import dbselect as ds

    path = table(ROWS, WIDTH)
    return lambda: ds.best_within(ds.gram(path, NAMES), "x0", PICKS).groups


def sklearn() -> Job:
    """Forward, by r2 on two folds."""
    from sklearn.feature_selection import SequentialFeatureSelector
    from sklearn.linear_model import LinearRegression

    X, y = _rows()
    search = SequentialFeatureSelector(LinearRegression(), n_features_to_select=PICKS, cv=2)
    return lambda: [NAMES[1 + j] for j in search.fit(X, y).get_support().nonzero()[0]]


def mlxtend() -> Job:
    """Forward, by r2 on the rows of the fit."""
    from mlxtend.feature_selection import SequentialFeatureSelector
    from sklearn.linear_model import LinearRegression

    X, y = _rows()
    search = SequentialFeatureSelector(LinearRegression(), k_features=PICKS, scoring="r2", cv=0)
    return lambda: [NAMES[1 + j] for j in search.fit(X, y).k_feature_idx_]


def abess() -> Job:
    """Best subset of five by splicing."""
    from abess import LinearRegression

    X, y = _rows()
    return lambda: [
        NAMES[1 + j] for j in LinearRegression(support_size=PICKS).fit(X, y).coef_.nonzero()[0]
    ]


def _h2o(mode: str) -> Job:
    import h2o as server
    from h2o.estimators import H2OModelSelectionEstimator

    server.init(nthreads=-1, max_mem_size="4g", bind_to_localhost=True)
    server.no_progress()
    frame = server.import_file(str(table(ROWS, WIDTH)))

    def work() -> list[str]:
        model = H2OModelSelectionEstimator(mode=mode, max_predictor_number=PICKS, seed=1)
        model.train(x=NAMES[1:], y="x0", training_frame=frame)
        return list(model.get_best_model_predictors()[-1])

    return work


def h2o_maxr() -> Job:
    """Sequential replacement, each model a GLM, on a server of this machine."""
    return _h2o("maxr")


def h2o_maxrsweep() -> Job:
    """Sequential replacement by sweeping, on a server of this machine."""
    return _h2o("maxrsweep")


def dbselect_fit() -> Job:
    """All nineteen, from the file, with standard errors."""
    import dbselect as ds

    path = table(ROWS, WIDTH)
    return lambda: ds.fit(ds.gram(path, NAMES), "x0").summary()["term"].to_list()[1:]


def statsmodels() -> Job:
    """All nineteen, with standard errors."""
    import statsmodels.api as sm

    X, y = _rows()

    def work() -> list[str]:
        sm.OLS(y, sm.add_constant(X)).fit().summary()
        return NAMES[1:]

    return work


JOBS = {
    "dbselect, from the file": dbselect,
    "dbselect, from the file, proven": dbselect_proven,
    "scikit-learn, SequentialFeatureSelector, cv=2": sklearn,
    "mlxtend, SequentialFeatureSelector, cv=0": mlxtend,
    "abess, LinearRegression": abess,
    "H2O, ModelSelection, maxr": h2o_maxr,
    "H2O, ModelSelection, maxrsweep": h2o_maxrsweep,
    "dbselect, fit and summary, from the file": dbselect_fit,
    "statsmodels, OLS and summary": statsmodels,
}


def _cpu() -> float:
    """Return the CPU seconds of this process and of what it has started."""
    import psutil

    here = psutil.Process()
    return sum(sum(one.cpu_times()[:2]) for one in [here, *here.children(recursive=True)])


def measured(job: Job) -> dict:
    """Return what a job takes and finds."""
    job()
    wall, cpu = [], []
    for _ in range(REPEATS):
        start, used = time.perf_counter(), _cpu()
        found = job()
        wall.append(time.perf_counter() - start)
        cpu.append(_cpu() - used)
    return {"wall": median(wall), "cpu": median(cpu), "found": found}


def main() -> None:
    """Print a line for each library, with the r2 that its columns reach."""
    import dbselect as ds

    gram = ds.gram(table(ROWS, WIDTH), NAMES)
    for name in JOBS:
        command = [sys.executable, __file__, name]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        if result.returncode:
            print(f"{name}: not measured, {result.stderr.strip().splitlines()[-1]}")
            continue
        told = json.loads(next(line for line in result.stdout.splitlines() if line[:1] == "{"))
        r2 = ds.fit(gram, "x0", told["found"]).r2
        print(f"| {name} | {told['wall']:.3f} s | {told['cpu']:.3f} s | {r2:.6f} |", flush=True)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(json.dumps(measured(JOBS[sys.argv[1]]())))
    else:
        main()
