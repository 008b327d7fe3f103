"""Data of a page that can repeat the search: record, options and the compiled search."""

import gzip
import json
from base64 import b64encode
from importlib import resources
from typing import Any

from dbselect.linear.problem import TARGET, numbered
from dbselect.results.sequence import Sequence

#: Largest record on a page, in bytes of JSON: some 450 columns.
MOST_RECORD = 2_000_000
#: Rule -> the quantity that it maximises per unit of cost.
RULES = {
    "fr": "exact gain",
    "omp": "gradient, whitened within the group",
    "omp-unwhitened": "gradient",
    "omp-single": "largest entry of the gradient",
    "doubling": "exact gain, costs at most doubled",
}
#: Rules that are equal to another rule on a record.
ALIASES = {"score": "fr", "omp-information": "omp"}
#: Method -> the rules that a page offers; methods without keep their search.
METHODS = {
    "anytime_sequence": list(RULES),
    "foba": list(RULES)[:4],
    "floating": list(RULES)[:4],
    "backward": [],
    "step": [],
}


def module_text() -> str:
    """Return the compiled search, compressed, in base64; empty if it was not built."""
    file = resources.files("dbselect.pages").joinpath("search.wasm")
    if not file.is_file():
        return ""
    return b64encode(gzip.compress(file.read_bytes(), mtime=0)).decode()


def page_record(sequence: Sequence) -> tuple[dict[str, Any], list[list[str]], dict[str, Any]]:
    """Return a record with numbered columns, safe from globs, its groups and problem."""
    problem = sequence.problem
    (record,) = numbered(sequence.gram, sequence.columns, sequence.target).to_pylist()
    columns = [list(map(str, at.tolist())) for at in sequence.groups.positions]
    fields = {"ridge": float(problem.ridge), "scale": problem.scale, "intercept": problem.intercept}
    return record, columns, fields


def search_of(sequence: Any) -> dict[str, Any] | str:
    """Return the input of the page's compiled search, or a sentence why there is none."""
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
        "options": {
            **fields,
            "always": list(call.problem.always),
            **call.problem.told.renamed(str),
            **call.options,
        },
        "rules": [(name, RULES[name]) for name in METHODS[call.method]],
        "rule": ALIASES.get(rule, rule) if METHODS[call.method] else None,
        # A backward search has other limits than a budget.
        "budget": call.method != "backward",
    }
