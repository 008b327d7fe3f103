"""Problems of methods that run on Gram records alone, in SQL, Polars and frames."""

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any, Unpack

import polars as pl

from dbselect.errors import ArgumentError, OptionError, shown
from dbselect.families import parse
from dbselect.methods.records import check_grams, fits_of_records, sequences_of
from dbselect.options.kinds import NOT_NEGATIVE
from dbselect.options.names import PROBLEM_FIELDS
from dbselect.options.option import REQUIRED, check_known, is_default, options_of, shows
from dbselect.problem.problem import Problem
from dbselect.problem.several import AnytimeCall
from dbselect.record.groups import Costs, GroupColumns
from dbselect.spec import options
from dbselect.spec.fields import FIRST, ProblemOptions
from dbselect.spec.methods import METHODS, OF_RECORDS
from dbselect.spec.spec import require_single_target

Groups = GroupColumns | None


class FitByCall(options.Constraints, ProblemOptions):
    """Options of a call of `fit_by`."""


_GRAMS = "grams : DataFrame with a column ``gram`` of Gram records, as `gram_by` returns it"


@shows(options.AnytimeOptions, ProblemOptions, like=sequences_of, first=(_GRAMS, *FIRST[1:]))
def anytime_sequence_by(
    grams: pl.DataFrame,
    target: str,
    groups: Groups = None,
    costs: Costs | None = None,
    **options: Unpack[AnytimeCall],
) -> pl.DataFrame:
    """Search each record of a frame."""
    check_grams(grams)
    given = {"groups": groups, "costs": costs, **options}
    problem, changes = of_records("anytime_sequence", target, given, "anytime_sequence_by")
    return sequences_of(grams, problem, changes)


@shows(
    options.Constraints, ProblemOptions, like=fits_of_records,
    first=(_GRAMS, FIRST[1], "columns : names and globs; default: all but the target"),
)  # fmt: skip
def fit_by(
    grams: pl.DataFrame,
    target: str,
    columns: Sequence[str] | None = None,
    **options: Unpack[FitByCall],
) -> pl.DataFrame:
    """Fit each record of a frame."""
    check_grams(grams)
    problem, constraints = of_records("fit", target, options, "fit_by")
    return fits_of_records(grams, problem, columns, constraints)


def of_records(
    method: str, target: Any, options: Mapping[str, Any], call: str = ""
) -> tuple[Problem, dict[str, Any]]:
    """Return the problem and the options not at their defaults; refuse fields that need rows.

    Errors name `call`, by default the method.
    """
    call = call or method
    require_single_target(target)
    definition = (OF_RECORDS | METHODS)[method]
    known = definition.known
    rest = dict(options)
    groups, costs = rest.pop("groups", None), rest.pop("costs", None)
    if "columns" in known:
        _check_columns(call, groups=groups, costs=costs)
    engine = [name for name, option in known.items() if option.in_engines]
    every_name = [*engine, *PROBLEM_FIELDS, "groups", "costs", *known]
    _check_groups(call, rest, every_name)
    check_known(call, rest, every_name)
    fields = {name: value for name, value in rest.items() if name in PROBLEM_FIELDS}
    changes = {name: value for name, value in rest.items() if name not in fields}
    for name, option in known.items():
        if option.default is REQUIRED and name not in changes:
            raise OptionError(f"{call} needs option '{name}', which has no default")
        if name in changes:
            changes[name] = option.checked(name, changes[name])
    all_options = {**known, **options_of(ProblemOptions)}
    for name, value in {**fields, **changes}.items():
        if is_default(all_options[name], value):
            continue
        if not all_options[name].in_engines:
            _refuse(method, name, value)
        if name in fields and name not in definition.fields_in_engines:
            raise ArgumentError(
                f"{name} is {shown(value)}; {call} is of least squares on the columns, which has "
                f"{' and '.join(definition.fields_in_engines)} of the fields of a problem"
            )
    problem = Problem(None, target, groups, costs, **fields)
    changes = {name: value for name, value in changes.items() if not is_default(known[name], value)}
    return problem, changes


def _check_groups(method: str, options: Mapping[str, Any], known: list[str]) -> None:
    """Refuse groups and costs that are passed as options."""
    for name, value in options.items():
        if name in known or any(name in method.known for method in METHODS.values()):
            continue
        kind = None
        if isinstance(value, list) and all(isinstance(item, str) for item in value):
            kind = "groups"
        elif NOT_NEGATIVE.allows(value) and not get_close_matches(name, known):
            kind = "costs"
        if kind is not None:
            raise OptionError(
                f"{method} has no option '{name}'; {kind} are given as "
                f"{{'{kind}': {{'{name}': {value!r}}}}}"
            )


def _check_columns(method: str, **fields: Any) -> None:
    """Refuse groups and costs of a method that takes columns of a record."""
    for name, value in fields.items():
        if value is not None:
            raise ArgumentError(
                f"{name} is {shown(value)}; {method} of a record takes columns, by name"
            )


def _refuse(method: str, name: str, value: Any) -> None:
    text = repr(str(parse(value))) if name == "family" else shown(value)
    way = f"dbselect.{method}(table, ..., {name}={text})"
    raise ArgumentError(f"{name} is {text}; a record holds no rows: {way} reads a table")
