"""Each family by each function of `validation`: it works, or says in a sentence why it cannot."""

import importlib
import re
from collections.abc import Callable
from typing import Any

import polars as pl
import pytest
from test_glm import table

import dbselect as ds

FRAME = table(3, 300).with_columns(none=pl.lit(0.0))
TRAIN, TEST = FRAME[:200], FRAME[200:]
GROUPS = {"ab": ["a", "b"], "c": ["c"], "de": ["d", "e"]}
COSTS = {"ab": 3.0, "c": 0.5, "de": 2.0}
GROUPS_HELD = list(GROUPS)
#: Modules that judge what is found.
MODULES = ("results.heights", "validation.scoring.evaluate", "validation.timeliness")
TARGETS: dict[str, Any] = {
    "linear": "gaussian",
    "joint": ["gaussian", "poisson"],
    **{name: name for name in ("gaussian", "binomial", "poisson", "multinomial")},
}
FAMILIES = [name for name in TARGETS if name not in ("linear", "joint")]
OF_FAMILY: dict[str, dict[str, Any]] = {
    name: {"family": name, "rule": "score"} for name in FAMILIES
}
# With an offset family gaussian is fitted in passes, as the others are.
OF_FAMILY["gaussian"]["offset"] = "none"
SEQUENCES = {
    name: ds.anytime_sequence(TRAIN, target, GROUPS, COSTS, **OF_FAMILY.get(name, {}))
    for name, target in TARGETS.items()
}
MODELS = {name: sequence.at(budget=3.5) for name, sequence in SEQUENCES.items()}
GRAM = ds.gram(TEST, ["gaussian", "poisson", "a", "b", "c", "d", "e"])


def cross_validated(name: str, **options: Any) -> ds.results.CrossValidation:
    return ds.cross_validate(
        FRAME, TARGETS[name], folds=3, groups=GROUPS, costs=COSTS,
        **OF_FAMILY.get(name, {}), **options,
    )  # fmt: skip


CALLS: dict[str, Callable[[str], Any]] = {
    "explained_at": lambda name: ds.reference.explained_at(SEQUENCES[name], 3.0),
    "stopping_cost": lambda name: ds.reference.stopping_cost(SEQUENCES[name], 0.9),
    "plateau": lambda name: ds.reference.plateau(SEQUENCES[name]),
    "timeliness": lambda name: ds.reference.timeliness(SEQUENCES[name], 0.9),
    "oracle": lambda name: ds.reference.oracle(SEQUENCES[name]),
    "evaluate": lambda name: ds.evaluate(SEQUENCES[name], TEST),
    "evaluate a model": lambda name: ds.evaluate(MODELS[name], TEST),
    "evaluate on a Gram": lambda name: ds.evaluate(SEQUENCES[name], GRAM),
    "compare": lambda name: ds.compare(
        {"a": SEQUENCES[name], "b": ds.reference.oracle(SEQUENCES[name])}
    ),
    "compare on a table": lambda name: ds.compare({"a": SEQUENCES[name]}, data=TEST),
    "compare on a Gram": lambda name: ds.compare({"a": SEQUENCES[name]}, data=GRAM),
    "cross_validate": cross_validated,
    "CrossValidation.arguments": lambda name: cross_validated(name).arguments(),
    "CrossValidation.model": lambda name: cross_validated(name).model(),
    "explained_at of a model": lambda name: ds.reference.explained_at(MODELS[name], 3.0),
    "oracle of a model": lambda name: ds.reference.oracle(MODELS[name]),
}
#: What cannot mean anything, and the sentence that says so.
REFUSED = {
    **{
        (call, name): f"data is a Gram and holds no rows.*family '{name}'"
        for call in ("evaluate on a Gram", "compare on a Gram")
        for name in FAMILIES
    },
    **{
        (call, name): "the curve is a .*Model; it must be a Sequence"
        for call in ("explained_at of a model", "oracle of a model")
        for name in TARGETS
    },
}


@pytest.mark.slow
@pytest.mark.parametrize("name", list(TARGETS))
@pytest.mark.parametrize("call", list(CALLS))
def test_every_function_works_or_says_why_not(call, name):
    if (call, name) not in REFUSED:
        found = CALLS[call](name)
        assert not (isinstance(found, pl.DataFrame) and found.is_empty())
        return
    with pytest.raises(ds.errors.ArgumentError, match=REFUSED[call, name]) as told:
        CALLS[call](name)
    sentence = str(told.value)
    assert sentence[0].islower()
    assert not re.search(r"[.!?]\s|\n|\.$", sentence)


def test_no_function_of_judging_is_left_out():
    modules = [importlib.import_module(f"dbselect.{name}") for name in MODULES]
    public = {
        name
        for place in (ds, ds.reference)
        for name in place.__all__
        if getattr(getattr(place, name), "__module__", "") in {one.__name__ for one in modules}
    } | {"cross_validate"}
    assert public == {call for call in CALLS if " " not in call and "." not in call}
    assert len(public) == 8
    methods = {name for name in vars(ds.results.CrossValidation) if not name.startswith("_")}
    fields = set(ds.results.CrossValidation.__dataclass_fields__)
    assert methods - fields == {
        "arguments", "best", "model", "one_standard_error", "plot", "target",
    }  # fmt: skip


@pytest.mark.parametrize("name", list(TARGETS))
def test_curves_of_a_family_are_read_from_its_prefixes(name):
    sequence = SEQUENCES[name]
    curve = pl.DataFrame({"spent": sequence.spent, "explained": sequence.explained})
    for budget in (0.0, 1.0, 3.5, 10.0):
        assert ds.reference.explained_at(sequence, budget) == ds.reference.explained_at(
            curve, budget
        )
        assert ds.reference.explained_at(sequence, budget) == sequence.at(budget).explained
    assert ds.reference.plateau(sequence) == ds.reference.plateau(curve)
    for fraction in (0.3, 0.9, 1.0):
        assert ds.reference.stopping_cost(sequence, fraction) == ds.reference.stopping_cost(
            curve, fraction
        )
        assert ds.reference.timeliness(sequence, fraction) == ds.reference.timeliness(
            curve, fraction
        )
    assert ds.reference.oracle(sequence)["group"].to_list()[1:] != []


def test_a_result_that_is_no_sequence_is_judged_by_its_model():
    found = ds.greedy(TRAIN, "binomial", GROUPS, k=2, family="binomial")
    assert ds.evaluate(found, TEST).equals(ds.evaluate(found.model, TEST))


@pytest.mark.slow
def test_groups_that_are_given_back_are_judged_too():
    def back(problem: ds.Problem) -> ds.results.GlmSequence:
        return ds.backward(problem.objective())

    asked = ds.Problem(TRAIN, "binomial", GROUPS, family="binomial")
    sequence = back(asked)
    held = [[GROUPS_HELD[g] for g in sequence.held(step)] for step in range(len(sequence.spent))]
    models = [sequence.model(step) for step in range(len(held))]
    assert [model.groups for model in models] == held
    judged = ds.evaluate(sequence, TEST)
    for step, model in enumerate(models):
        own = ds.evaluate(model, TEST)["deviance"][0]
        assert own == pytest.approx(judged["deviance"][step], rel=1e-9)
    numbered = FRAME.with_row_index("id")
    found = asked.on(numbered).cross_validate(back, folds=3, key="id")
    assert found.table["step"].to_list() == [3, 4, 5, 6]
    step = found.best["step"].item()
    whole = back(asked.on(FRAME))
    assert found.model("best").groups == [GROUPS_HELD[group] for group in whole.held(step)]
