"""Draw the pictures of the guides and of the reference, each named after its class.

``python examples/pictures.py`` writes docs/guides/pictures/ and docs/assets/report.png;
flights_data.py writes the flights first.
"""

import re
import subprocess
import sys
import tempfile
from pathlib import Path
from shutil import which

import polars as pl
import vl_convert
from heart import report as write_report

import dbselect as ds

ROOT = Path(__file__).parents[1]
FLIGHTS = ROOT / "examples" / "data" / "flights.parquet"
PICTURES = ROOT / "docs" / "guides" / "pictures"
#: Look-ups before departure: with the delay known, a curve shows little else.
COLUMNS = [
    "arr_delay", "distance", "scheduled_minutes", "hour_*", "weekday_*", "carrier", "age", "seats",
    "wind_speed", "precipitation", "visibility",
]  # fmt: skip
GROUPS = {
    "schedule": ["hour_*", "weekday_*"],
    "route": ["distance", "scheduled_minutes"],
    "carrier": ["carrier.*"],
    "plane": ["age", "seats"],
    "weather": ["wind_speed", "precipitation", "visibility"],
}
COSTS = {"schedule": 0.1, "route": 0.5, "carrier": 0.2, "plane": 8.0, "weather": 25.0}
#: A number of more than two decimals.
LONG = re.compile(r"\d+\.\d{3,}")
#: Words are given the room of the widest letters that a reader may have.
FONT = "DejaVu Sans, Verdana, sans-serif"
#: Alone, a picture follows the screen; within a page, the page says what colour it has.
STYLE = (
    "<style>.drawn{color:#24292f}@media(prefers-color-scheme:dark){.drawn{color:#d8dee6}}</style>"
)


def write(name: str, chart) -> None:
    """Write a chart as SVG."""
    drawn = chart.to_dict()
    drawn["config"]["font"] = FONT
    svg = vl_convert.vegalite_to_svg(drawn)
    svg = svg.replace('class="marks"', 'class="drawn"', 1)
    # Coordinates, which are in tags, to a hundredth of a pixel: nobody sees more.
    svg = re.sub(r"<[^>]*>", lambda tag: LONG.sub(lambda one: f"{float(one[0]):.2f}", tag[0]), svg)
    place = PICTURES / f"{name}.svg"
    place.write_text(re.sub(r"(<svg [^>]*>)", rf"\1{STYLE}", svg, count=1) + "\n")


def simulations(early: pl.LazyFrame, late: pl.LazyFrame) -> None:
    """Draw what rules of buying explain while look-ups fail, and of planes without a record."""
    groups = {**GROUPS, "carrier": ["carrier"], "departure": ["dep_delay"]}
    costs = COSTS | {"departure": 1.0}
    columns = [name for name in COLUMNS if name != "carrier"] + ["carrier", "dep_delay"]
    problem = ds.Problem(ds.gram(early, columns), "arr_delay", groups, costs)
    rows = late.select(pl.exclude("origin", "dest", "flight", "departs")).collect()
    complete = rows.drop_nulls()
    tenth = dict.fromkeys(groups, 0.1)
    write("Simulation", problem.simulate(complete, unavailable=tenth).plot())
    write("SimulationDown", problem.simulate(complete, unavailable={"departure": 1.0}).plot())
    write("SimulationGaps", problem.simulate(rows).plot())


def heart() -> None:
    """Draw the order of examinations by gain per dollar, and the order without prices."""
    problem = ds.io.example_problem("heart")
    seq = problem.anytime_sequence()
    blind = ds.anytime_sequence(problem.source, "disease").with_costs(problem.costs)
    chart = ds.compare({"by gain per dollar": seq, "without prices": blind}).plot()
    chart.title = "How much of heart disease the dollars of examinations explain"
    write("Heart", chart)


def report() -> None:
    """Take the picture of a report, if there is Chromium."""
    page, picture = (
        ROOT / "examples" / "data" / "heart.html",
        ROOT / "docs" / "assets" / "report.png",
    )
    write_report(page)
    program = which("chromium") or which("google-chrome")
    if program is None:
        print(f"no Chromium: {picture} stays as it is")
        return
    command = [program, "--headless", "--no-sandbox", "--hide-scrollbars", "--disable-gpu"]
    command += ["--window-size=1200,800", "--virtual-time-budget=5000", f"--screenshot={picture}"]
    subprocess.run([*command, page.as_uri()], check=True, capture_output=True)


def main() -> None:
    """Draw them all, or those that are named: ``heart``, ``report``."""
    if sys.argv[1:]:
        for name in sys.argv[1:]:
            {"heart": heart, "report": report}[name]()
        return
    heart()
    report()
    gram = ds.gram(FLIGHTS, COLUMNS)
    seq = ds.anytime_sequence(gram, "arr_delay", GROUPS, COSTS)
    folds = ds.gram_by(FLIGHTS, columns=COLUMNS, fold=5)
    cv = ds.cross_validate(folds, "arr_delay", "anytime_sequence", groups=GROUPS, costs=COSTS)
    blind = ds.anytime_sequence(gram, "arr_delay", GROUPS).with_costs(COSTS)
    write("Sequence", seq.plot(held_out=cv))
    write("CrossValidation", cv.plot())
    write("Comparison", ds.compare({"by cost": seq, "cost-blind": blind}).plot())
    lasso = ds.lasso_path(gram, "arr_delay", GROUPS, COSTS, n_lambda=30)
    write("LassoPath", lasso.plot(most=12))
    write("GroupLassoPath", ds.group_lasso_path(gram, "arr_delay", GROUPS, COSTS).plot())
    write("Gram", gram.plot(GROUPS))
    month, rows = pl.col("departs").dt.month(), pl.scan_parquet(FLIGHTS)
    early, late_in_year = rows.filter(month < 10), rows.filter(month >= 10)
    autumn = ds.drift(ds.gram(early, COLUMNS), ds.gram(late_in_year, COLUMNS), "arr_delay", GROUPS)
    write("Drift", autumn.plot())
    told = pl.col("arr_delay") > 30
    first, second = (part.with_columns(late=told) for part in (early, late_in_year))
    order = ds.anytime_sequence(ds.gram(first, ["late", *COLUMNS[1:]]), "late", GROUPS, COSTS)
    write("Evaluation", ds.evaluate(order, second, metric="auc").plot("auc"))
    flights = pl.scan_parquet(FLIGHTS).drop("origin", "dest", "flight", "departs", "carrier")
    table = flights.drop_nulls().collect()
    late = table.select(pl.exclude("arr_delay", "dep_delay"), late=pl.col("arr_delay") > 15)
    groups = {name: columns for name, columns in GROUPS.items() if name != "carrier"}
    costs = {name: COSTS[name] for name in groups}
    write(
        "GlmSequence",
        ds.anytime_sequence(late, "late", groups, costs, family="binomial", rule="score").plot(),
    )
    both = ds.anytime_sequence(table, ["arr_delay", "dep_delay"], groups, costs)
    write("JointSequence", both.plot())
    simulations(early, late_in_year)
    with tempfile.TemporaryDirectory() as folder:
        store = ds.GramStore(Path(folder, "days.duckdb"))
        day = pl.scan_parquet(FLIGHTS).with_columns(pl.col("departs").dt.date().alias("day"))
        store.refresh(day, by=["day"], columns=COLUMNS)
        windows = store.rolling(days=90, every=7).sequences("arr_delay", GROUPS, COSTS)
        write("OverTime", windows.plot())


if __name__ == "__main__":
    main()
