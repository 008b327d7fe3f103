"""Searches tell how far they are: every turn once, and with the answer of the silent search."""

from collections.abc import Callable
from typing import Any

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

import dbselect as ds
from dbselect import _native
from dbselect.record.steps import Choice, Stop

GROUPS = {"ab": ["a", "b"], "c": ["c"], "de": ["d", "e"], "f": ["f"]}


def table() -> pl.DataFrame:
    rng = np.random.default_rng(9)
    X = rng.normal(size=(160, 6))
    y = X @ [2.0, 1.0, 1.5, 0.4, 0.0, 0.1] + rng.normal(size=160)
    frame = pl.DataFrame(X, schema=list("abcdef"))
    return frame.with_columns(y=y, z=(y + rng.normal(size=160) > 0).astype(int))


FRAME = table()
GRAM = ds.gram(FRAME.drop("z"))
BOTH = ds.gram(FRAME)
LATE = FRAME.drop("y")
LOGISTIC = {"family": "binomial"}
#: Searches that add and remove groups: what is called, and the total that is told.
SEQUENCES: dict[str, tuple[Callable[..., Any], int | None]] = {
    "linear": (lambda **o: ds.anytime_sequence(GRAM, "y", GROUPS, **o), 4),
    "joint": (lambda **o: ds.anytime_sequence(BOTH, ["y", "z"], GROUPS, max_groups=3, **o), 3),
    "passes": (
        lambda **o: ds.anytime_sequence(LATE, "z", GROUPS, rule="score", **LOGISTIC, **o),
        4,
    ),
    "objective": (
        lambda **o: ds.anytime_sequence(ds.Problem(LATE, "z", GROUPS, **LOGISTIC).objective(), **o),
        4,
    ),
    "foba": (lambda **o: ds.foba(GRAM, "y", epsilon=1e-3, **o), None),
    "foba of a family": (lambda **o: ds.foba(LATE, "z", epsilon=1e-3, **LOGISTIC, **o), None),
    "backward": (lambda **o: ds.backward(GRAM, "y", GROUPS, **o), None),
    "floating": (lambda **o: ds.floating(GRAM, "y", GROUPS, **o), None),
    "step": (lambda **o: ds.step(GRAM, "y", GROUPS, penalty=0.0, **o), None),
}
#: Others: what is called, the unit, and how often it turns, None where that is not fixed.
OTHERS: dict[str, tuple[Callable[..., Any], str, int | None]] = {
    "greedy": (lambda **o: ds.greedy(GRAM, "y", k=3, **o), "rounds", 3),
    "dash": (lambda **o: ds.dash(GRAM, "y", k=3, opt=0.45, alpha=1.0, **o), "rounds", None),
    "exchange": (lambda **o: ds.exchange(GRAM, "y", k=3, **o), "exchanges", None),
    "best_within": (lambda **o: ds.best_within(GRAM, "y", 3.0, **o), "questions", None),
    "cross_validate": (
        lambda **o: ds.cross_validate(
            ds.gram_by(FRAME.drop("z"), fold=3), "y", "foba", {"epsilon": [0.0, 0.1]}, **o
        ),
        "points of the grid",
        2,
    ),
}
every = pytest.mark.parametrize("name", [*SEQUENCES, *OTHERS])


def call_of(name: str) -> Callable[..., Any]:
    return SEQUENCES[name][0] if name in SEQUENCES else OTHERS[name][0]


@pytest.mark.parametrize("name", SEQUENCES)
def test_every_step_is_told_and_changes_nothing(name):
    call, total = SEQUENCES[name]
    seen: list[ds.results.Progress] = []
    found, silent = call(callback=seen.append), call()
    assert_frame_equal(found.steps, silent.steps, rel_tol=1e-9, abs_tol=1e-12)
    steps = found.steps[1:]
    names = [("-" if row["action"] == "remove" else "") + row["group"] for row in steps.to_dicts()]
    assert [one.latest for one in seen] == names
    assert [one.done for one in seen] == steps["step"].to_list()
    assert {one.total for one in seen} == {total}
    np.testing.assert_allclose([one.explained for one in seen], steps["explained"], atol=1e-9)


@pytest.mark.parametrize("name", OTHERS)
def test_every_turn_is_told(name):
    call, unit, count = OTHERS[name]
    seen: list[ds.results.Progress] = []
    found, silent = call(callback=seen.append), call()
    assert {one.unit for one in seen} == {unit}
    assert [one.done for one in seen] == list(range(1, len(seen) + 1))
    if count is not None:
        assert {one.total for one in seen} == {count} == {len(seen)}
    if unit == "rounds":
        assert [one.explained for one in seen] == list(found.diagnostics.history)
        assert found.chosen == silent.chosen
    if name == "exchange":
        assert [one.explained for one in seen][:3] == list(found.diagnostics.history)[:3]
    if name in ("exchange", "best_within"):
        assert found.chosen == silent.chosen
    if name == "best_within":
        assert len(seen) >= found.how.nodes > 0


@every
def test_what_a_callback_raises_ends_the_call(name):
    seen = []

    def stop(progress: ds.results.Progress) -> None:
        seen.append(progress)
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        call_of(name)(callback=stop)
    assert len(seen) == 1


@pytest.mark.parametrize("name", ["linear", "foba", "backward", "floating", "step"])
def test_a_callback_does_not_change_the_engine(name, monkeypatch):
    searched = []
    library = _native.walk

    def counted(*arguments, **options):
        searched.append(name)
        return library(*arguments, **options)

    monkeypatch.setattr(_native, "walk", counted)
    call = SEQUENCES[name][0]
    with_callback, without = call(callback=lambda _: None), call()
    assert len(searched) == 2
    assert with_callback.steps.equals(without.steps)


@pytest.mark.parametrize("name", SEQUENCES)
def test_an_interrupt_leaves_the_steps_made_so_far(name):
    def stop(progress: ds.results.Progress) -> None:
        if progress.done == 2:
            raise KeyboardInterrupt

    found, whole = call_of(name)(callback=stop), call_of(name)()
    assert found.stop is Stop.INTERRUPTED
    assert len(found.records) == 2
    assert found.steps["group"].to_list() == whole.steps["group"].to_list()[:3]


@every
def test_what_cannot_be_called_is_refused(name):
    with pytest.raises(ds.errors.ArgumentError, match="callback is 3; it must be a function"):
        call_of(name)(callback=3)


def test_stops_and_choices_have_the_numbers_of_the_library():
    answer = _native.search(GRAM.to_arrow(), "anytime_sequence", "y", {})
    assert tuple(answer.field("stop").dictionary.to_pylist()) == _native.STOPS
    choices = answer.field("choices").values.dictionary.to_pylist()
    assert choices == [choice.name for choice in Choice]
