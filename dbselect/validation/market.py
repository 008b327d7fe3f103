"""Rows that buy groups, whose look-ups may fail."""

from collections.abc import Mapping
from functools import cached_property
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import polars as pl

from dbselect.errors import ArgumentError, shown
from dbselect.options.kinds import FRACTION
from dbselect.record.gram import Vector
from dbselect.record.inputs import inputs_of, single_fields
from dbselect.results.prediction.arrived import AnytimePredictor
from dbselect.results.prediction.predict import prediction_table
from dbselect.spec.spec import Spec, answer_of

Mask = npt.NDArray[Any]


class Market:
    """Rows and groups; `available`, shape (n, J), is false where a look-up fails.

    A look-up fails as well where one does that the group needs.
    """

    def __init__(self, problem: Spec, rows: Any, fails: Mapping[str, float], seed: int) -> None:
        self.predictor = predictor = answer_of(
            problem, "predictor", approximate=not problem.is_linear
        )
        self.names, self.prices = predictor.groups.names, predictor.groups.prices
        self._offers: dict[bytes, tuple[Vector, Mask, list[int]]] = {}
        for name, share in fails.items():
            predictor.groups.number(name, "unavailable")
            FRACTION.check(f"unavailable of '{name}'", share)
        self.fields = _fields_of(predictor)
        target = predictor.target
        inputs = inputs_of([target, *predictor.groups.members], predictor.gram.terms)
        frame = prediction_table(rows, None, inputs, lambda _: None)
        if frame is None or target not in frame.columns:
            raise ArgumentError(
                f"rows is {shown(rows)}; it must be a table with the target '{target}'"
            )
        self.frame = frame.filter(pl.col(target).cast(pl.Float64).is_finite())
        self.y = self.frame[target].cast(pl.Float64).to_numpy()
        groups = predictor.predict(self.frame)["groups"]
        in_row = [groups.list.contains(name).to_numpy() for name in self.names]
        draws = np.random.default_rng(seed).random((len(self.y), len(self.names)))
        chances = [fails.get(name, 0.0) for name in self.names]
        self.available = np.column_stack(in_row) & (draws >= chances)
        self.available &= ~self._lacks_need(~self.available)

    @cached_property
    def order(self) -> list[int]:
        """The groups in the order of `anytime_sequence`, for a family on its linear predictor."""
        problem = self.predictor.problem.replace(family="gaussian").on_gram(self.predictor.gram)
        return [step.group for step in answer_of(problem, "anytime_sequence").records]

    def _lacks_need(self, lacking: Mask) -> Mask:
        """Return for which groups a row lacks one that it needs, from those that it lacks."""
        groups = range(len(self.names))
        needs = [np.isin(groups, self.prices.closed([group])[:-1]) for group in groups]
        return lacking @ np.array(needs).T

    def offers(self, bought: Mask, arrived: Mask) -> tuple[Vector, Mask, Mask]:
        """Return what groups cost rows now, which may be bought, and which comes first.

        Shapes (m, J) for m rows, of which some groups are bought and some of these arrived. A group
        costs what it does with those that it needs, of which one may come first; none may be bought
        twice, or after one that it needs has failed.
        """
        if self.prices.are_sums:
            costs, own = self.prices.costs, np.arange(len(self.names))
            return np.broadcast_to(costs, bought.shape), ~bought, np.broadcast_to(own, bought.shape)
        sets, set_of = np.unique(bought, axis=0, return_inverse=True)
        each = [self._offered(one) for one in sets]
        costs, is_open, firsts = (np.array(of)[set_of.ravel()] for of in zip(*each, strict=True))
        return costs, is_open & ~bought & ~self._lacks_need(bought & ~arrived), firsts

    def _offered(self, bought: Mask) -> tuple[Vector, Mask, list[int]]:
        key = bought.tobytes()
        if key not in self._offers:
            held = np.flatnonzero(bought).tolist()
            offers = self.prices.offers(held)
            firsts = [self.prices.with_needs(group, held)[0] for group in range(len(bought))]
            self._offers[key] = offers.costs, offers.among(np.ones_like(bought)), firsts
        return self._offers[key]

    def gains(self, masks: Mask) -> Mask:
        """Return the gains of all groups for m sets of groups that a row has; shape (m, J)."""
        sets = [[self.names[group] for group in np.flatnonzero(mask)] for mask in masks]
        return np.array([pattern["gains"] for pattern in self.predictor.patterns(sets)])

    def predicted(self, arrived: Mask, rows: Any = None, **asked: Any) -> pl.DataFrame:
        """Predict the rows, or some of them, from the groups that they have."""
        nulls = [
            pl.when(pl.Series(arrived[:, number])).then(pl.col(field)).alias(field)
            for number, fields in enumerate(self.fields)
            for field in fields
        ]
        frame = self.frame if rows is None else self.frame[rows]
        return cast(pl.DataFrame, self.predictor.predict(frame.with_columns(nulls), **asked))

    def judged(self, arrived: Mask, spent: Vector) -> dict[str, float]:
        """Score the predictions of the rows from the groups that they have."""
        fit = self.predicted(arrived)["prediction"].to_numpy()
        mse = float(np.mean((self.y - fit) ** 2))
        (empty,) = self.predictor.patterns([[]])
        return {
            "spent": float(spent.mean()),
            "groups": float(arrived.sum(axis=1).mean()),
            "mse": mse,
            "r2": 1.0 - mse / float(self.y.var()),
            "explained": 1.0 - mse / float(np.mean((self.y - empty["intercept"]) ** 2)),
        }


def _fields_of(predictor: AnytimePredictor) -> list[list[str]]:
    """Return the table fields of each group; refuse fields that two groups share."""
    owner: dict[str, str] = {}
    for name, columns in predictor.groups.columns.items():
        for one in single_fields(*inputs_of(list(columns), predictor.gram.terms)):
            field = str(one.path[0])
            if owner.setdefault(field, name) != name:
                raise ArgumentError(
                    f"groups '{owner[field]}' and '{name}' share field '{field}'; each look-up "
                    "must bring fields of its own"
                )
    return [[field for field in owner if owner[field] == name] for name in predictor.groups.names]
