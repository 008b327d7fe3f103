"""``dbselect tables``: order candidate tables, from a JSON file, by gain per cost."""

from collections.abc import Mapping
from dataclasses import MISSING, fields
from typing import TYPE_CHECKING, Any

from dbselect.doors.cli.command import SOURCE, Command, Options, Parser
from dbselect.doors.cli.out import RECORDS
from dbselect.errors import ArgumentError, unknown
from dbselect.options.option import options_of
from dbselect.spec.options import TablesOptions

if TYPE_CHECKING:
    from dbselect.methods.candidates import Candidate


def _add(parser: Parser) -> None:
    parser.add_argument("source", help=SOURCE + ": the facts")
    parser.add_argument(
        "--candidates",
        required=True,
        help='JSON file: name -> {"table": path, "key": name, list or mapping, "cost": 5, ...}',
    )
    parser.add_problem(fields=("weight", "intercept", "ridge", "scale", "always"))
    for name, option in options_of(TablesOptions).items():
        parser.add_option(name, option)
    parser.add_max_skipped()
    parser.add_out("the sequence", RECORDS)


def _run(options: Options) -> None:
    from dbselect.doors.printing import show
    from dbselect.problem.several import anytime_tables

    candidates = options.from_file("candidates")
    if not isinstance(candidates, Mapping):
        raise ArgumentError(f"--candidates: '{options.candidates}' must map names to candidates")
    sequence = anytime_tables(
        options.source,
        candidates={name: _candidate(name, candidate) for name, candidate in candidates.items()},
        **options.fields(),
        **options.given(options_of(TablesOptions)),
    )
    show(options, sequence, "Not bought")


def _candidate(name: str, fields_given: Any) -> "Candidate":
    from dbselect.methods.candidates import Candidate, naming

    names = [field.name for field in fields(Candidate)]
    needed = [field.name for field in fields(Candidate) if field.default is MISSING]
    if not isinstance(fields_given, Mapping):
        raise ArgumentError(f"candidate '{name}' is {fields_given!r}; it must have {needed}")
    for option in fields_given:
        if option not in names:
            raise ArgumentError(f"candidate '{name}' has {unknown('option', option, names)}")
    missing = [option for option in needed if option not in fields_given]
    if missing:
        raise ArgumentError(f"candidate '{name}' lacks {missing}")
    with naming(name):
        return Candidate(**fields_given)


COMMAND = Command(_add, _run)
