"""The five columns of nineteen that explain most, by other libraries.

dbselect reads the file each time; for the others the rows are in memory before the clock starts.
Each job runs in a process of its own: the median of three after a first. H2O needs Java.
"""

from collections.abc import Callable, Iterator

import polars as pl
from measure import apart, installed
from rows import Row, skipped
from tables import columns, table

ROWS, WIDTH, PICKS = 200_000, 20, 5
NAMES = columns(WIDTH)

#: A job returns the selected columns.
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


#: Job -> what it is, and the module that it needs. The first is the base of the others.
SELECTIONS = {
    dbselect: ("dbselect, file to sequence", "dbselect"),
    dbselect_proven: ("dbselect, file to best_within, proven best", "dbselect"),
    sklearn: ("scikit-learn, SequentialFeatureSelector, cv=2", "sklearn"),
    mlxtend: ("mlxtend, SequentialFeatureSelector, cv=0", "mlxtend"),
    abess: ("abess, splicing", "abess"),
    h2o_maxr: ("H2O, ModelSelection, maxr", "h2o"),
    h2o_maxrsweep: ("H2O, ModelSelection, maxrsweep", "h2o"),
}
FITS = {
    dbselect_fit: ("dbselect, file to fit and summary, all 19", "dbselect"),
    statsmodels: ("statsmodels, OLS and summary, all 19", "statsmodels"),
}


def selections() -> Iterator[Row]:
    """Select five columns, and note their r2 on all rows."""
    yield from _beside(SELECTIONS, "dbselect's sequence")


def inference() -> Iterator[Row]:
    """Fit all nineteen, with standard errors."""
    yield from _beside(FITS, "dbselect's fit")


def _beside(jobs: dict[Callable[[], Job], tuple[str, str]], of: str) -> Iterator[Row]:
    import dbselect as ds

    gram, base = ds.gram(table(ROWS, WIDTH), NAMES), None
    work = "result = [job(), *measure.seconds(job, repeats=3)]"
    for job, (what, module) in jobs.items():
        if not installed(module):
            yield skipped(what, f"no {module}")
            continue
        picks, took = apart(work, f"import beside, measure; job = beside.{job.__name__}()").result
        yield Row(what, took, base, of, note=f"r2 {ds.fit(gram, 'x0', picks).r2:.6f}")
        base = base or took


PARTS = (selections, inference)
