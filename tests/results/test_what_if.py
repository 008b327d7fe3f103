"""The npm package in Node: its answers are Python's, and its mistakes are Python's sentences."""

import json
import re
import runpy
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import dbselect as ds

ROOT = Path(__file__).parents[2]
RELEASE = runpy.run_path(str(ROOT / "release" / "wasm.py"))
NODE = shutil.which("node")
MODULE = RELEASE["MODULE"]
pytestmark = [
    pytest.mark.system,
    pytest.mark.skipif(NODE is None, reason="there is no node"),
    pytest.mark.skipif(not MODULE.is_file(), reason="make wasm did not build the module"),
]
ASKS = """
const { anytimeSequence } = require(process.argv[1]);
const asked = JSON.parse(require("fs").readFileSync(0, "utf8"));
console.log(JSON.stringify(asked.map(({ record, target, options }) => {
  try { return anytimeSequence(record, target, options); }
  catch (error) { return { name: error.name, message: error.message }; }
})));
"""


@pytest.fixture(scope="module")
def package(tmp_path_factory) -> Path:
    """Return a folder with the package as `npm pack` takes it."""
    folder = tmp_path_factory.mktemp("npm") / "dbselect"
    RELEASE["fill"](folder)
    return folder


def answers(package: Path, questions: list[dict[str, Any]]) -> list[dict[str, Any]]:
    ended = subprocess.run(
        [str(NODE), "-e", ASKS, str(package)], input=json.dumps(questions), capture_output=True,
        text=True, check=False,
    )  # fmt: skip
    assert ended.stderr == ""
    found: list[dict[str, Any]] = json.loads(ended.stdout)
    return found


def draw(seed: int) -> tuple[pl.DataFrame, dict[str, Any]]:
    """Return a table and what is asked of it, at random."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 4, size=rng.integers(2, 9))
    names = [f"c{j}" for j in range(sizes.sum())]
    X = rng.normal(size=(80, len(names))) + rng.uniform(0, 1) * rng.normal(size=(80, 1))
    X = X * rng.uniform(0.1, 10, len(names)) + rng.normal(size=len(names)) * 5
    y = X @ (rng.normal(size=len(names)) * (rng.random(len(names)) < 0.6)) + rng.normal(size=80)
    ends = np.split(np.array(names), np.cumsum(sizes)[:-1])
    # Names that an object of JavaScript would put first.
    groups = {str(len(ends) - g): own.tolist() for g, own in enumerate(ends)}
    options: dict[str, Any] = {
        "groups": groups,
        "costs": dict(zip(groups, rng.uniform(0.5, 5, len(groups)).tolist(), strict=True)),
        "ridge": float(rng.choice([0.0, 0.1, 2.0])),
        "scale": bool(rng.random() < 0.8),
        "intercept": bool(rng.random() < 0.8),
        "rule": str(rng.choice(["fr", "omp", "omp-unwhitened", "omp-single", "doubling"])),
        "always": [str(rng.choice(list(groups)))] if rng.random() < 0.3 else [],
    }
    if rng.random() < 0.4:
        least = sum(options["costs"][name] for name in options["always"])
        options["budget"] = float(least + rng.uniform(0, 8))
    return pl.DataFrame(X, schema=names).with_columns(y=pl.Series(y)), options


def assert_equal(found: dict[str, Any], seq: Any) -> None:
    steps = found["steps"]
    for name in ("step", "action", "group", "useful"):
        assert [one[name] for one in steps] == seq.steps[name].to_list()
    assert found["stop"] == seq.stop.name
    for name in ("cost", "spent", "score", "gain", "explained", "r2"):
        expected = seq.steps[name].to_list()
        own = [one[name] for one in steps[1:]]
        assert own == pytest.approx(expected[1:], rel=1e-12, abs=1e-12), name
    for at, one in enumerate(steps):
        model = seq.model(at)
        assert one["intercept"] == pytest.approx(model.intercept, rel=1e-12, abs=1e-11)
        assert one["coefficients"] == pytest.approx(model.coefficients, rel=1e-11, abs=1e-12)
    bounds = seq.certificate(found["budgets"])["bound"].to_list()
    assert found["bounds"] == pytest.approx(bounds, rel=1e-9, abs=1e-12)


def pairs(options: dict[str, Any]) -> dict[str, Any]:
    both = {name: list(options[name].items()) for name in ("groups", "costs")}
    return {**options, **both}


def test_answers_are_those_of_python(package):
    drawn = [draw(seed) for seed in range(60)]
    questions = [
        {"record": ds.gram(frame).to_struct(), "target": "y", "options": pairs(options)}
        for frame, options in drawn
    ]
    for (frame, options), found in zip(drawn, answers(package, questions), strict=True):
        assert_equal(found, ds.anytime_sequence(ds.gram(frame), "y", **options))


@pytest.mark.parametrize("method", ["foba", "backward", "floating", "step"])
def test_other_methods_are_those_of_python(package, method):
    frame, options = draw(3)
    own = {name: options[name] for name in ("groups", "costs")}
    question = {"record": ds.gram(frame).to_struct(), "target": "y",
                "options": {**pairs(own), "method": method}}  # fmt: skip
    (found,) = answers(package, [question])
    assert_equal(found, getattr(ds, method)(frame, "y", **own))


def test_conditions_are_those_of_python(package):
    questions, expected = [], []
    for seed in range(12):
        frame, options = draw(seed)
        options |= {"always": [], "budget": 9.0}
        first, *others = options["groups"]
        options |= {
            "shared": {"set": [1.5, [first, others[0]]]}, "needs": {others[-1]: [first]},
            "limits": {"ms": {"costs": {first: 2.0, others[0]: 3.0}, "limit": 4, "how": "max"}},
        }  # fmt: skip
        record = ds.gram(frame).to_struct()
        questions.append({"record": record, "target": "y", "options": pairs(options)})
        expected.append(ds.anytime_sequence(frame, "y", **options))
    for found, seq in zip(answers(package, questions), expected, strict=True):
        assert_equal(found, seq)


def test_a_group_that_is_excluded_is_no_group(package):
    frame, options = draw(5)
    left = next(name for name in options["groups"] if name not in options["always"])
    kept = {
        name: {key: one for key, one in options[name].items() if key != left}
        for name in ("groups", "costs")
    }
    question = {"record": ds.gram(frame).to_struct(), "target": "y",
                "options": {**pairs(options), "exclude": [left]}}  # fmt: skip
    (found,) = answers(package, [question])
    assert_equal(found, ds.anytime_sequence(frame, "y", **{**options, **kept}))


def test_categories_and_default_groups_are_those_of_the_record(package):
    rng = np.random.default_rng(4)
    frame = pl.DataFrame({"a": rng.normal(size=50), "k": rng.choice(["u", "v"], 50),
                          "y": rng.normal(size=50)})  # fmt: skip
    question = {"record": ds.gram(frame).to_struct(), "target": "y", "options": {"ridge": 0.5}}
    (found,) = answers(package, [question])
    assert_equal(found, ds.anytime_sequence(frame, "y", ridge=0.5))


def test_mistakes_are_the_sentences_of_python(package):
    frame, _ = draw(2)
    record = ds.gram(frame).to_struct()
    mistakes: list[tuple[str, dict[str, Any]]] = [
        ("y", {"ridge": -0.5}), ("y", {"rules": "fr"}), ("y", {"costs": {"c0": 0.0}}),
        ("nothing", {}), ("y", {"rule": "best"}), ("y", {"always": ["no"]}),
    ]  # fmt: skip
    questions = [
        {"record": record, "target": target, "options": options} for target, options in mistakes
    ]
    for (target, options), found in zip(mistakes, answers(package, questions), strict=True):
        with pytest.raises(ds.errors.DbselectError) as refused:
            ds.anytime_sequence(ds.gram(frame), target, **options)
        assert found["name"] in [kind.__name__ for kind in type(refused.value).__mro__]
        assert found["message"] == str(refused.value)


def test_the_example_of_the_readme_runs(package):
    (code,) = re.findall(r"```js\n(.*?)```", (package / "README.md").read_text(), re.DOTALL)
    ended = subprocess.run(
        [str(NODE), "-e", code.replace('"dbselect"', json.dumps(str(package)))],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ended.stderr == ""
    assert ended.stdout.splitlines()[1] == "b 1 0.048 { b: 0.5 }"


def test_the_module_imports_nothing_and_the_package_is_whole(package):
    program = """
        const module = new WebAssembly.Module(require("fs").readFileSync(process.argv[1]));
        console.log(JSON.stringify(WebAssembly.Module.imports(module)));
    """
    ended = subprocess.run(
        [str(NODE), "-e", program, str(MODULE)], capture_output=True, text=True, check=True
    )
    assert json.loads(ended.stdout) == []
    told = json.loads((package / "package.json").read_text())
    assert told["version"] == ds.__version__
    assert all((package / name).is_file() for name in [told["main"], told["types"], *told["files"]])


def test_the_script_says_what_it_lacks(tmp_path):
    (tmp_path / "rustc").write_text("#!/bin/sh\nexit 1\n")
    (tmp_path / "rustc").chmod(0o755)
    assert RELEASE["options"]({"PATH": str(tmp_path)}) is None
