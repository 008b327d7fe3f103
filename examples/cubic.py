"""Compare selections of few columns in few groups on held-out rows, from three Grams.

Every column of scikit-learn's diabetes table is expanded into its powers 1, 2, 3: groups of
three, of which maybe one or two matter. Each method is fitted on one part of the rows, its
size chosen on a second part and its error measured on a third; every part is one Gram.
"""

import numpy as np
import polars as pl
from sklearn.datasets import load_diabetes

import dbselect as ds

SPLITS = 10


def table() -> tuple[pl.DataFrame, dict[str, list[str]]]:
    """Return the columns with their powers, and a group of three for each."""
    frame = load_diabetes(as_frame=True).frame
    names = [name for name in frame.columns if name != "target"]
    columns = {"target": frame["target"].to_numpy()}
    for name in names:
        x = frame[name].to_numpy()
        x = (x - x.mean()) / x.std()
        columns |= {f"{name}^{power}": x**power for power in (1, 2, 3)}
    return pl.DataFrame(columns), {name: [f"{name}^{p}" for p in (1, 2, 3)] for name in names}


def best(models: list[ds.results.Model], validation: ds.Gram) -> ds.results.Model:
    """Return the model with the smallest error on other rows."""
    return min(models, key=lambda model: ds.evaluate(model, validation)["mse"][0])


def chosen(
    train: ds.Gram, validation: ds.Gram, groups: dict[str, list[str]]
) -> dict[str, ds.results.Model]:
    """Return the model of each method, its size chosen on the validation rows."""
    alone = {column: [column] for columns in groups.values() for column in columns}
    sequences = {
        "OMP": ds.anytime_sequence(train, "target", alone, rule="omp", max_groups=12),
        "group OMP": ds.anytime_sequence(train, "target", groups, rule="omp"),
        "group lasso": ds.reference.group_lasso(train, "target", groups),
    }
    models = {
        name: best([found.at(size=k) for k in range(len(found.spent))], validation)
        for name, found in sequences.items()
    }
    limits = [(s1, s2) for s2 in range(1, 7) for s1 in range(s2, 2 * s2 + 1)]
    grid = [
        ds.sght(train, "target", groups=groups, max_columns=s1, max_groups=s2) for s1, s2 in limits
    ]
    return models | {"SGHT": best(grid, validation)}


def main() -> None:
    """Print groups, columns and held-out error of each method, means over random splits."""
    frame, groups = table()
    rows: dict[str, list[tuple[int, int, float]]] = {}
    for seed in range(SPLITS):
        order = np.random.default_rng(seed).permutation(frame.height)
        parts = (ds.gram(frame[part]) for part in np.array_split(order, 3))
        train, validation, test = parts
        for name, model in chosen(train, validation, groups).items():
            held = {column.split("^")[0] for column in model.columns}
            r2 = ds.evaluate(model, test)["r2"][0]
            rows.setdefault(name, []).append((len(held), len(model.columns), r2))
    print(f"{'method':14}{'groups':>8}{'columns':>9}{'r2 on other rows':>18}")
    for name, figures in rows.items():
        held, columns, r2 = np.mean(figures, axis=0)
        print(f"{name:14}{held:8.1f}{columns:9.1f}{r2:18.3f}")


if __name__ == "__main__":
    main()
