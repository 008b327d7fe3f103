"""The same again, in Python and in SQL."""

from typing import Any

from dbselect.errors import DbselectError
from dbselect.pages.report import Section
from dbselect.selection.criteria import RULES

#: Methods beside the rules, by the name that their sequences have, and their calls.
CALLS = {"foba": "foba", "backward": "backward", "group-lasso": "group_lasso"}
#: Characters of an SQL expression that a reader would copy from a page.
MOST_SQL = 20_000


def code_of(sequence: Any, source: Any) -> Section:
    """Return the section with the code.

    Parameters
    ----------
    source : shown by its name where it is text
    """
    code = {"Python": _python(sequence, source)}
    told = []
    try:
        expression = sequence.sql()
    except DbselectError as error:
        told.append(f"No SQL: {error}.")
    else:
        if len(expression) <= MOST_SQL:
            code["SQL"] = f"SELECT *, {expression} AS prediction FROM your_table"
        else:
            told.append("The prediction in SQL is long; seq.sql(budget) writes it.")
    return Section("The same again", told, code=code)


def _python(sequence: Any, source: Any) -> str:
    groups, costs = sequence.groups, dict(
        zip(sequence.groups.names, sequence.groups.costs.tolist(), strict=True)
    )  # fmt: skip
    rule = sequence.rule.removesuffix(", at other costs")
    targets = list(getattr(sequence, "responses", [])) or sequence.target
    options = [] if not sequence.ridge else [f"ridge={sequence.ridge!r}"]
    family = getattr(sequence, "family", None)
    if family is not None:
        options.append(f"family={family!r}")
    call = CALLS.get(rule.split(" ")[0], "anytime_sequence")
    if call == "anytime_sequence" and (rule in RULES or family is not None):
        options.insert(0, f"rule={rule!r}")
    where = repr(source) if isinstance(source, str) else "source"
    more = "".join(f", {one}" for one in options)
    lines = [
        "import dbselect as ds",
        "",
        *_literal("groups", groups.columns),
        *_literal("costs", costs),
        f"seq = ds.{call}({where}, {targets!r}, groups, costs{more})",
        "model = seq.at(budget=...)",
        "predicted = model.predict(table)",
    ]
    if rule != sequence.rule:
        lines.insert(-2, "# The order was found at other costs, and priced with these.")
    return "\n".join(lines)


def _literal(name: str, values: dict[str, Any]) -> list[str]:
    """Return the lines of a dict in Python, one a key."""
    return [f"{name} = {{", *(f"    {key!r}: {value!r}," for key, value in values.items()), "}"]
