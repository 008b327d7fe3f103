"""Models, paths and cross-validations come back from files as they were."""

import json
import pickle
from contextlib import suppress
from decimal import Decimal

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

import dbselect as ds

RNG = np.random.default_rng(4)
A, B, NOISE = RNG.normal(size=(3, 90))
TABLE = pl.DataFrame(
    {
        "a": A, "b": np.where(np.arange(90) % 11 == 3, np.nan, B), "k": ["u", "v", "w"] * 30,
        "y": A - B + NOISE, "hit": (A + NOISE > 0).astype(int), "class": ["l", "m", "n"] * 30,
    }
).with_columns(pl.col("b").fill_nan(None))  # fmt: skip
X = ["a", "b", "k"]
LINEAR = TABLE.select(*X, "y")
FOLDS = ds.gram_by(LINEAR, fold=3, columns=["a", "b", "y"])
MADE = {
    "Model": lambda: ds.fit(LINEAR, "y", null_policy="mean"),
    "prefix": lambda: ds.anytime_sequence(LINEAR, "y").at(budget=2),
    "JointModel": lambda: ds.anytime_sequence(LINEAR, ["y", "a"]).at(),
    "GlmModel": lambda: ds.fit(TABLE, "hit", X, family="binomial"),
    "multinomial": lambda: ds.fit(TABLE, "class", ["a", "b"], family="multinomial", ridge=0.1),
    "LassoPath": lambda: ds.lasso_path(LINEAR, "y", n_lambda=8),
    "GroupLassoPath": lambda: ds.group_lasso_path(LINEAR, "y", n_lambda=5),
    "CrossValidation": lambda: ds.cross_validate(FOLDS, "y", "fit", {"ridge": [0.0, 0.1]}),
    "StoppedSequence": lambda: ds.Problem(FOLDS, "y").stopped_sequence(),
    "Stability": lambda: ds.stability(LINEAR, "y", size=1, records=4),
}


def answers(result) -> list:
    """Return what a result says, in frames and numbers."""
    found = [repr(result)]
    for name in ("summary", "criteria", "intervals"):
        with suppress(ds.errors.ArgumentError):  # as of a model with a ridge
            found += [getattr(result, name)()] if hasattr(result, name) else []
    shown = ("steps", "points", "table", "frequencies", "scores", "best")
    found += [one for one in (getattr(result, name, 0) for name in shown) if is_frame(one)]
    models = (result, result.model() if name_of(result) in CHOSEN else None)
    found += [model.predict(TABLE) for model in models if hasattr(model, "predict")]
    if name_of(result).endswith("LassoPath"):
        found.append(result.model(3).predict(TABLE))
    return found


def is_frame(found) -> bool:
    return isinstance(found, pl.DataFrame)


def name_of(result) -> str:
    return type(result).__name__


CHOSEN = ("CrossValidation", "StoppedSequence")


@pytest.mark.filterwarnings("ignore::dbselect.errors.SelectionWarning")
@pytest.mark.parametrize("ending", ["json", "parquet"])
@pytest.mark.parametrize("kind", MADE)
def test_a_result_comes_back_as_it_was(tmp_path, kind, ending):
    result = MADE[kind]()
    path = tmp_path / f"result.{ending}"
    getattr(result, f"write_{ending}")(path)
    for found in (ds.read(path), getattr(type(result), f"read_{ending}")(path)):
        assert type(found) is type(result)
        for one, other in zip(answers(found), answers(result), strict=True):
            if isinstance(other, pl.DataFrame):
                assert_frame_equal(one, other, check_exact=True)
            else:
                np.testing.assert_array_equal(one, other)


def test_the_rows_of_a_family_are_not_stored(tmp_path):
    found = ds.cross_validate(TABLE.select("a", "hit"), "hit", "fit", family="binomial", folds=3)
    found.write_json(tmp_path / "cv.json")
    again = ds.read(tmp_path / "cv.json")
    assert_frame_equal(again.table, found.table)
    with pytest.raises(ds.errors.ArgumentError, match="a stored cross-validation has no rows"):
        again.model()


@pytest.mark.parametrize(
    "change",
    [
        lambda record: {**record, "kind": "Popen"},
        lambda record: {**record, "fields": {**record["fields"], "terms": {"#": "os", "of": {}}}},
        lambda record: {**record, "fields": {"target": "y"}},
        lambda record: {**record, "fields": 3},
        lambda record: {**record, "fields": {**record["fields"], "terms": {"#": "Terms"}}},
    ],
)
def test_a_damaged_record_is_an_error_of_its_own(tmp_path, change):
    record = json.loads(json.dumps(MADE["Model"]().to_struct()))
    (tmp_path / "m.json").write_text(json.dumps(change(record)))
    with pytest.raises(ds.errors.RecordError, match="the record is damaged"):
        ds.read(tmp_path / "m.json")


def test_a_file_of_a_newer_release_is_told(tmp_path):
    path = tmp_path / "m.json"
    MADE["Model"]().write_json(path)
    record = json.loads(path.read_text())
    assert record.pop("format") == 1
    del record["digest"]
    path.write_text(json.dumps({**record, "format": 2}))
    with pytest.raises(ds.errors.RecordError, match=r"format 2, and this release.*format 1; upd"):
        ds.read(path)


def test_decimal_classes_come_back(tmp_path):
    table = TABLE.with_columns(c=pl.Series([Decimal("1.5"), Decimal("2.5")] * 45))
    model = ds.fit(table, "c", ["a"], family="multinomial")
    model.write_json(tmp_path / "m.json")
    assert ds.read(tmp_path / "m.json").classes == model.classes


def test_an_objective_of_rows_can_be_pickled():
    for family, target in (("binomial", "hit"), ("multinomial", "class")):
        problem = ds.Problem(TABLE.select("a", "k", target), target, family=family, ridge=0.01)
        objective = problem.objective()
        objective.add(0)
        again = pickle.loads(pickle.dumps(objective))
        np.testing.assert_array_equal(again.gains(), objective.gains())
        assert again.add(1) == objective.add(1)


@pytest.mark.parametrize("kind", ["Model", "GlmModel", "multinomial"])
def test_a_row_may_be_a_mapping(kind):
    model = MADE[kind]()
    rows = TABLE.head(3).to_dicts()
    wanted = model.predict(TABLE.head(3))
    np.testing.assert_allclose(model.predict(rows), wanted, rtol=1e-14)
    np.testing.assert_allclose(model.predict(rows[0]), wanted[:1], rtol=1e-14)
    columns = TABLE.head(3).to_dict(as_series=False)
    np.testing.assert_allclose(model.predict(columns), wanted, rtol=1e-14)
    with pytest.raises(ds.errors.ColumnError, match="'a'"):
        model.predict({"b": 1.0, "k": "u"})


def test_a_sequence_predicts_of_a_mapping():
    sequence = ds.anytime_sequence(LINEAR.select("a", "b", "y"), "y")
    wanted = sequence.predict(TABLE.head(1))
    np.testing.assert_allclose(sequence.predict(TABLE.row(0, named=True)), wanted, rtol=1e-14)
