"""Compare a linear model with products of its sources to a boosted one at equal cost.

Half of 40,000 flights fit, the other half judge: ``python bench/pairs.py``. The figures are in
`docs/guides/buy-sources-for-any-model.md`.
"""

from pathlib import Path

import polars as pl
from sklearn.ensemble import HistGradientBoostingRegressor

import dbselect as ds

GROUPS = {
    "departure": ["dep_delay"],
    "route": ["distance", "scheduled_minutes"],
    "hour": ["hour_sin", "hour_cos"],
    "plane": ["age", "seats", "engines"],
    "weather": ["wind_speed", "visibility", "precipitation", "humidity"],
}
COSTS = {"departure": 1.0, "route": 0.5, "hour": 0.1, "plane": 8.0, "weather": 25.0}
BUDGETS = {1.6: ["departure", "route", "hour"], 34.6: [*GROUPS]}
FLIGHTS = Path(__file__).parents[1] / "examples" / "data" / "flights.parquet"


def main() -> None:
    """Print the r2 on the flights that judge, model by model and budget by budget."""
    flights = pl.read_parquet(FLIGHTS).drop_nulls().sample(40_000, seed=0)
    fitted, judging = flights[:20_000], flights[20_000:]
    y = judging["arr_delay"]
    terms = ds.terms(fitted, interactions=GROUPS)
    groups = {"columns": GROUPS, "products": terms.nested_groups(GROUPS)}
    for budget, sources in BUDGETS.items():
        predictions = {
            name: ds.anytime_sequence(fitted, "arr_delay", members, COSTS, terms=terms)
            .at(budget=budget).predict(judging)
            for name, members in groups.items()
        }  # fmt: skip
        columns = [column for name in sources for column in GROUPS[name]]
        boosted = HistGradientBoostingRegressor(max_iter=200, random_state=0)
        boosted.fit(fitted[columns].to_numpy(), fitted["arr_delay"].to_numpy())
        predictions["boosted"] = boosted.predict(judging[columns].to_numpy())
        for name, predicted in predictions.items():
            r2 = 1.0 - ((y - predicted) ** 2).mean() / y.var(ddof=0)
            print(f"{budget:5} {name:9} {r2:.4f}")


if __name__ == "__main__":
    main()
