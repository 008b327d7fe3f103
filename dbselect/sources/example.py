"""Example tables that come with the package, and their prices."""

from dataclasses import dataclass
from pathlib import Path

import polars as pl

from dbselect._forked import check_threads
from dbselect.errors import ArgumentError, shown


@dataclass(frozen=True)
class Example:
    """What to predict of an example table, and what its groups cost."""

    target: str
    groups: dict[str, list[str]]
    costs: dict[str, float]


def _each(target: str, costs: dict[str, float]) -> Example:
    """Return an example whose columns are its groups."""
    return Example(target, {name: [name] for name in costs}, costs)


#: Name -> target, groups and costs; `examples/SOURCES.md` has the source of the rows and prices.
EXAMPLES = {
    "heart": _each(
        "disease",
        {
            "age": 1.0, "sex": 1.0, "chest_pain": 1.0, "blood_pressure": 1.0, "cholesterol": 7.27,
            "blood_sugar": 5.20, "ecg": 15.50, "max_heart_rate": 102.90, "exercise_angina": 87.30,
            "st_depression": 87.30, "st_slope": 87.30, "vessels": 100.90, "thallium_scan": 102.90,
        },
    ),
    "flights": Example(
        "arr_delay",
        {
            "schedule": ["hour_*", "weekday_*", "month_*"],
            "carrier": ["carrier"],
            "route": ["distance", "scheduled_minutes"],
            "departure": ["dep_delay"],
            "plane": ["age", "seats", "engines"],
            "weather": ["temperature", "humidity", "wind_speed", "precipitation", "visibility"],
        },
        # Milliseconds of one look-up: what is in the booking is nearly free, a table in memory
        # costs little, a registry some and a weather service most.
        {
            "schedule": 0.1, "carrier": 0.2, "route": 0.5, "departure": 1.0, "plane": 8.0,
            "weather": 25.0,
        },
    ),
    "credit": Example(
        "default",
        {
            "application": [
                "months", "amount", "purpose", "age", "instalment_share", "housing", "other_plans",
            ],
            "bank": ["checking_account", "savings"],
            "bureau": ["credit_history", "credits", "guarantor"],
            "employer": ["employed_since", "job"],
            "register": ["property", "residence_years"],
        },
        {"application": 0.01, "bank": 0.60, "bureau": 1.50, "employer": 4.0, "register": 8.0},
    ),
    "questionnaire": _each(
        "votes_dole",
        {
            "place_thousands": 0.1, "age": 3.0, "news_days": 8.0, "education": 10.0, "income": 15.0,
            "party": 20.0, "own_position": 25.0, "clinton_position": 25.0, "dole_position": 25.0,
        },
    ),
}  # fmt: skip


def example_of(name: str) -> Example:
    """Return the target, groups and costs of an example; ArgumentError without one."""
    if name not in EXAMPLES:
        allowed = ", ".join(map(repr, EXAMPLES))
        raise ArgumentError(f"name is {shown(name)}; it must be one of {allowed}")
    return EXAMPLES[name]


def example(name: str = "flights") -> pl.DataFrame:
    """Return a table to try dbselect on; `example_problem` has its groups and prices.

    Parameters
    ----------
    name : ``"heart"``, 270 patients of the UCI heart disease table, with the dollars of each
        examination (Turney, 1995); ``"flights"``, 10,000 of the 336,776 flights that left New York
        in 2013, with the weather at departure and the plane, delays in minutes; ``"credit"``, 1,000
        loans, with the euros of each source; ``"questionnaire"``, 944 voters, with the seconds of
        each question. ``SOURCES.md`` beside the tables has their sources and licences

    Raises
    ------
    ArgumentError : there is no such table

    Examples
    --------
    >>> import dbselect as ds
    >>> flights = ds.io.example("flights")
    >>> seq = ds.anytime_sequence(flights.select("arr_delay", "dep_delay", "distance"), "arr_delay")
    >>> seq.steps["group"].to_list()
    [None, 'dep_delay', 'distance']
    """
    example_of(name)
    check_threads()
    return pl.read_parquet(Path(__file__).parent / "examples" / f"{name}.parquet")
