"""What skip, mean, indicator and EM find where values are missing at random, and where not.

    python bench/missing.py

Five columns of one factor and noise predict a target. Two thirds of the rows lack columns 3 to 5,
by chance (MCAR), by column 1, which is always there (MAR), or by column 3 itself (MNAR). The table
shows r2 on 100,000 other rows: of the model on rows that have all columns, and of what is predicted
of rows with gaps like those of the fit.
"""

import warnings

import numpy as np
import polars as pl

import dbselect as ds

ROWS, COLUMNS = 20_000, 5
LACKING = [2, 3, 4]
NAMES = [f"x{j + 1}" for j in range(COLUMNS)]
POLICIES = ("skip", "mean", "indicator", "em")


def drawn(random: np.random.Generator, rows: int) -> np.ndarray:
    """Return columns and target."""
    X = random.normal(size=(rows, 1)) + 0.7 * random.normal(size=(rows, COLUMNS))
    return np.column_stack([X, X @ [0.2, 0.2, 0.6, -0.4, 0.5] + 1.2 * random.normal(size=rows)])


def with_gaps(random: np.random.Generator, full: np.ndarray, kind: str) -> np.ndarray:
    """Return the rows with gaps in about two thirds of them."""
    score = {"MCAR": 0.0 * full[:, 0], "MAR": full[:, 0], "MNAR": full[:, 2]}[kind]
    gaps = full.copy()
    gone = random.random(len(full)) < 1 / (1 + np.exp(-0.7 - 2.5 * score))
    gaps[np.ix_(gone, LACKING)] = np.nan
    return gaps


def framed(rows: np.ndarray) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=[*NAMES, "y"]).fill_nan(None)


def r2(y: np.ndarray, predicted: np.ndarray) -> float:
    return 1.0 - np.mean((y - predicted) ** 2) / np.var(y)


def predicted(model: "ds.results.Model", frame: pl.DataFrame) -> np.ndarray:
    return frame.select(model.expr().alias("p"))["p"].to_numpy()


def main() -> None:
    warnings.simplefilter("ignore")
    random = np.random.default_rng(0)
    train, test = drawn(random, ROWS), drawn(random, 100_000)
    whole = ds.fit(framed(train), "y")
    print(f"no gaps: {r2(test[:, -1], predicted(whole, framed(test))):.3f}")
    print("| missing | policy | r2 on whole rows | r2 on rows with gaps |\n|---|---|---|---|")
    for kind in ("MCAR", "MAR", "MNAR"):
        table = framed(with_gaps(random, train, kind))
        gaps = with_gaps(random, test, kind)
        for policy in POLICIES:
            gram = ds.gram(table, null_policy=policy)
            model = ds.fit(gram, "y")
            on_whole = r2(test[:, -1], predicted(model, framed(test)))
            found = np.full(len(gaps), np.nan)
            for lacking in (False, True):
                at = np.isnan(gaps[:, 2]) == lacking
                # Of a plain record and of EM, the model on the columns that are there.
                names = NAMES[:2] if lacking and policy in ("skip", "em") else None
                own = ds.fit(gram, "y", names) if names else model
                found[at] = predicted(own, framed(gaps[at]))
            print(f"| {kind} | {policy} | {on_whole:.3f} | {r2(gaps[:, -1], found):.3f} |")


if __name__ == "__main__":
    main()
