"""What a page needs to search again: the record, the question, and the compiled search."""

import gzip
import json
from base64 import b64encode
from importlib import resources
from typing import Any

from dbselect.linear.problem import TARGET, numbered
from dbselect.results.sequence import Sequence

#: Bytes of JSON that a page holds of a record: some 450 columns.
MOST_RECORD = 2_000_000
#: Rules, by what they maximise per unit of cost.
RULES = {
    "fr": "exact gain",
    "omp": "gradient, whitened within the group",
    "omp-unwhitened": "gradient",
    "omp-single": "largest entry of the gradient",
    "doubling": "exact gain, costs at most doubled",
}
#: Rules that are others on a record.
ALIASES = {"score": "fr", "omp-information": "omp"}
#: Rules that a method may have; those without can be searched again as they are.
METHODS = {
    "anytime_sequence": list(RULES),
    "foba": list(RULES)[:4],
    "floating": list(RULES)[:4],
    "backward": [],
    "step": [],
}


def module_text() -> str:
    """Return the compiled search, compressed, in base64; empty where it was not built."""
    file = resources.files("dbselect.pages").joinpath("search.wasm")
    if not file.is_file():
        return ""
    return b64encode(gzip.compress(file.read_bytes(), mtime=0)).decode()


def page_record(sequence: Sequence) -> tuple[dict[str, Any], list[list[str]], dict[str, Any]]:
    """Return a record of numbered columns, which no glob can mean, its groups and problem."""
    problem = sequence.problem
    (record,) = numbered(sequence.gram, sequence.columns, sequence.target).to_pylist()
    columns = [list(map(str, at.tolist())) for at in sequence.groups.positions]
    fields = {"ridge": float(problem.ridge), "scale": problem.scale, "intercept": problem.intercept}
    return record, columns, fields


def question_of(sequence: Any) -> dict[str, Any] | str:
    """Return what the page asks of the compiled search, or a sentence that says why it cannot."""
    call = sequence.call
    if type(sequence) is not Sequence:
        return (
            "Costs can be edited only in reports of linear models with one response, of one Gram."
        )
    if sequence.rule.endswith("at other costs"):
        return "Costs cannot be edited here: with_costs changed them after the search."
    if call.method not in METHODS:
        return f"Costs cannot be edited in reports of {call.method}."
    rule = call.options.get("rule", "fr")
    record, columns, fields = page_record(sequence)
    size = len(json.dumps(record))
    if size > MOST_RECORD:
        return (
            f"Costs cannot be edited here: the record of {len(sequence.columns)} columns takes "
            f"{size / 1e6:.1f} MB, and a page holds {MOST_RECORD / 1e6:.0f} MB."
        )
    return {
        "record": record,
        "target": TARGET,
        "method": call.method,
        "groups": list(zip(sequence.groups.names, columns, strict=True)),
        "options": {**fields, "always": list(call.problem.always), **call.options},
        "rules": [(name, RULES[name]) for name in METHODS[call.method]],
        "rule": ALIASES.get(rule, rule) if METHODS[call.method] else None,
        # The limits of a backward search are another thing.
        "budget": call.method != "backward",
    }
