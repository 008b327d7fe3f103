"""Problem fields that a method refuses, with reasons; the documentation renders this table."""

from typing import Any

from dbselect.errors import ArgumentError, shown
from dbselect.families import parse
from dbselect.options.conditions import CONDITIONS
from dbselect.spec.methods import METHODS
from dbselect.spec.spec import ONE_TARGET, Spec

_QUADRATIC = (
    "the path of {method} is that of a quadratic objective, which the Gram matrix holds; "
    "anytime_sequence and the other searches take families"
)
_PENALISED = "the penalty of {method} takes its place: l1_ratio below 1 adds a squared one"
_WHOLE = "{method} looks at all correlations of the columns: gram='full' makes the whole matrix"
_NO_SETS = (
    "{method} weighs groups one by one and prices no sets: anytime_sequence, exchange and "
    "best_within do"
)
_CONDITIONS = dict.fromkeys(CONDITIONS, _NO_SETS)
_LASSO = {
    **_CONDITIONS,
    "family": _QUADRATIC,
    "ridge": _PENALISED,
    "gram": _WHOLE,
    "target": ONE_TARGET,
}
_SET = {"target": ONE_TARGET, "gram": _WHOLE}
_PROVEN = {
    **_SET,
    "family": "{method} proves its answer by bounds of least squares, which other families do not "
    "have: exchange(k=...) searches their sets, without a proof",
}
_RECORDS = (
    "{method} searches records of rows, which hold no rows: cross_validate(table, folds=...) "
    "judges families"
)

#: Method -> field -> the reason why the method does not take it.
REFUSED: dict[str, dict[str, str]] = {
    "anytime_sequence": {},
    "foba": {"target": ONE_TARGET},
    "floating": {"target": ONE_TARGET},
    "backward": _SET,
    "step": {
        **_SET,
        "ridge": "a criterion counts parameters, and a ridge makes them fewer: choose by rows held "
        "out, as cross_validate does",
    },
    "exchange": _SET,
    "greedy": {"target": ONE_TARGET},
    "top_k": _SET,
    "random_k": _SET,
    "dash": {**_CONDITIONS, "target": ONE_TARGET},
    "best_within": _PROVEN,
    "break_even": _PROVEN,
    "near_best": {
        **_PROVEN,
        "intercept": "correlations are about means, which models through the origin do not have: "
        "best_within takes it",
    },
    "sght": {
        **_CONDITIONS,
        "gram": _WHOLE,
        "always": "sght keeps the largest coefficients and cannot force a group: best_within and "
        "exchange can",
    },
    "lasso": _LASSO,
    "lasso_path": _LASSO,
    "group_lasso_path": _LASSO,
    "sparse_group_lasso": _LASSO,
    "group_lasso": {**_CONDITIONS, "family": _QUADRATIC, "gram": _WHOLE, "target": ONE_TARGET},
    "fit": {"gram": _WHOLE, "target": ONE_TARGET},
    "cross_validate": {},
    "stopped_sequence": {
        "target": ONE_TARGET,
        "family": "every step of every fold would be passes over the table: "
        "cross_validate(table, folds=...) scores families",
    },
    "stability": {"target": ONE_TARGET, "family": _RECORDS, "gram": _WHOLE},
    "knockoffs": {
        **_CONDITIONS,
        "target": ONE_TARGET,
        "family": _RECORDS,
        "gram": _WHOLE,
        "always": "a group that is forced cannot come before its copy",
        "intercept": "copies have the correlations of centred columns",
        "ridge": "the statistics of knockoffs are those of least squares",
    },
    "drift": {
        "target": ONE_TARGET,
        "family": "drift compares least-squares models: evaluate(sequence, b) judges a sequence of "
        "any family on other rows",
        "gram": _WHOLE,
    },
    "anytime_tables": {
        **dict.fromkeys(
            CONDITIONS,
            "{method} reads one table after another and prices each on its own: join those of a "
            "set-up, and anytime_sequence prices their columns together",
        ),
        "target": ONE_TARGET,
        "family": "what a table adds is summed by its key, which holds for least squares only",
        "gram": "the Gram matrix of facts and candidates is never made whole",
        "null_policy": "rows of facts with missing values are left out; `unmatched` says what "
        "happens to keys without a row",
        "rows": "sums by key are those of all facts",
        "terms": "texts of facts and candidates are categories by themselves",
    },
    "predictor": {
        "target": ONE_TARGET,
        "gram": _WHOLE,
        "family": "every set of groups needs a fit of its own: approximate=True projects "
        "the fit on all groups",
    },
    "coverage": {"target": ONE_TARGET, "family": _RECORDS, "gram": _WHOLE},
}


def refuse(problem: Spec, method: str) -> None:
    """Refuse a problem with a field that a method does not support, with the reason."""
    options = METHODS[method].known if method in METHODS else {}
    if hasattr(problem.source, "ask") and "max_queries" not in options:
        raise ArgumentError(
            f"source is a {type(problem.source).__name__}, which has no rows, and {method} reads "
            "rows; anytime_sequence and the other searches take it"
        )
    reasons = REFUSED[method]
    for field, value in _changed_fields(problem).items():
        if field in reasons:
            reason = reasons[field].format(method=method)
            raise ArgumentError(f"{field} is {shown(value)}; {reason}")


def _changed_fields(problem: Spec) -> dict[str, Any]:
    """Return the fields that differ from their defaults, by the names of `REFUSED`."""
    fields = dict(problem.changed())
    family = parse(problem.family)
    fields.pop("family", None)
    if not problem.is_linear:
        # With an offset even a linear model is fitted by passes over the table.
        fields["family"] = str(family) if not family.is_linear else "gaussian with an offset"
    if fields.get("gram") != "lazy":
        fields.pop("gram", None)
    if isinstance(problem.target, list | tuple):
        fields["target"] = problem.target
    return fields
