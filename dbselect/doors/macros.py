"""SQL macros made from options: named arguments for the functions of the extension."""

from collections.abc import Iterable
from dataclasses import dataclass
from importlib import resources

import pyarrow as pa

from dbselect.options.option import REQUIRED, options_of
from dbselect.spec.fields import ProblemOptions
from dbselect.spec.methods import OF_RECORDS, Method, places_of
from dbselect.spec.options import AnytimeOptions, LedOptions

_SQL_TYPES = {
    pa.int64(): "BIGINT",
    pa.string(): "VARCHAR",
    pa.float64(): "DOUBLE",
    pa.bool_(): "BOOLEAN",
}
_GROUPS = ("groups", "costs")
#: Reserved words of SQL -> names of their parameters.
RESERVED = {"offset": "offset_column", "limit": '"limit"'}


@dataclass(frozen=True)
class Macro:
    """An SQL macro: its parameters, and the function that it calls."""

    name: str
    first: tuple[str, ...]  # parameters without a default
    placed: tuple[str, ...]  # positional parameters with a default
    named: tuple[str, ...]  # parameters passed by name, collected in one STRUCT
    call: str  # the function, with arguments before those of the macro
    direct: int  # number of parameters passed directly; the others go into the STRUCT

    @property
    def parameters(self) -> dict[str, str]:
        """Name of each parameter in the macro -> its name in the function."""
        return {RESERVED.get(name, name): name for name in (*self.first, *self.placed, *self.named)}

    @property
    def head(self) -> str:
        """The name of the macro with its parameters and defaults."""
        defaults = ["", " := NULL"]
        parameters = [
            key + defaults[name not in self.first] for key, name in self.parameters.items()
        ]
        return f"{self.name}({', '.join(parameters)})"

    @property
    def statement(self) -> str:
        """The statement that creates the macro."""
        keys = list(self.parameters)
        fields = [f"'{name}': {key}" for key, name in self.parameters.items()][self.direct :]
        arguments = [*keys[: self.direct], f"{{{', '.join(fields)}}}"]
        return f"CREATE OR REPLACE TEMP MACRO {self.head} AS {self.call}{', '.join(arguments)});"


def texts() -> dict[str, str]:
    """Return the statement of every macro by name; those in ``sql/`` with their comments."""
    statements = {macro.name: macro.statement for macro in made()}
    for file in resources.files("dbselect.sql").iterdir():
        if file.name.endswith(".sql"):
            statements[file.name.removesuffix(".sql")] = file.read_text()
    return dict(sorted(statements.items()))


def made() -> list[Macro]:
    """Return the macros that are made from options."""
    of_rows = [key for key in options_of(ProblemOptions) if key not in ("family", "gram", "terms")]
    of_wide = ("weight", "scale", "ridge", "null_policy", "always", "rows", "seed")
    first = ("query_or_table", "target")
    return [
        *(_of_record(name, method) for name, method in OF_RECORDS.items()),
        _of_table("anytime_sequence_glm", (*first, "family"), of_rows, ("c_min", "screen")),
        _of_table("anytime_sequence_wide", first, of_wide, ("max_iter", "tol")),
    ]


def sql_type(type_: pa.DataType) -> str:
    """Return the SQL name of an Arrow type."""
    if isinstance(type_, pa.StructType):
        fields = ", ".join(f'"{field.name}" {sql_type(field.type)}' for field in type_)
        return f"STRUCT({fields})"
    if isinstance(type_, pa.MapType):
        return f"MAP({sql_type(type_.key_type)}, {sql_type(type_.item_type)})"
    if isinstance(type_, pa.ListType):
        return f"{sql_type(type_.value_type)}[]"
    return _SQL_TYPES[type_]


def _of_record(name: str, method: Method) -> Macro:
    """Return the macro of a method of a record: positional parameters, then options by name."""
    places = places_of(method)
    required = [place for place in places if method.known[place].default is REQUIRED]
    first = ("record", "target", *required)
    placed = (*(place for place in places if place not in required), "options")
    groups = () if "columns" in places else _GROUPS
    options = (key for key in method.in_engines if key not in places)
    named = (*groups, *options, *method.fields_in_engines)
    return Macro(name, first, placed, named, f"system.main.{name}(", len(first) + len(placed))


def _of_table(
    name: str, first: tuple[str, ...], fields: Iterable[str], without: tuple[str, ...]
) -> Macro:
    """Return a macro of `anytime_sequence` for a table that is read in passes."""
    excluded = ("callback", "resume", *options_of(LedOptions), *without)
    options = (key for key in options_of(AnytimeOptions) if key not in excluded)
    function = name.replace("anytime", "dbselect")
    call = f"{function}(getvariable('dbselect_connection'), current_setting('search_path'), "
    return Macro(name, first, ("options",), (*_GROUPS, *options, *fields), call, len(first))
