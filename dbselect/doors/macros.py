"""The SQL macros made from options: named arguments for what the extension answers."""

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
#: Words of SQL that are no name of a parameter.
RESERVED = {"offset": "offset_column"}


@dataclass(frozen=True)
class Macro:
    """A macro: its parameters, and the function that it calls."""

    name: str
    first: tuple[str, ...]  # parameters without a default
    placed: tuple[str, ...]  # those with a default that come next
    named: tuple[str, ...]  # those that are passed by name, and go into one STRUCT
    call: str  # the function, with arguments before those of the macro
    direct: int  # how many parameters the function takes as they are; the others go into the STRUCT

    @property
    def parameters(self) -> dict[str, str]:
        """What the function calls each parameter, by the name that it has in the macro."""
        return {RESERVED.get(one, one): one for one in (*self.first, *self.placed, *self.named)}

    @property
    def head(self) -> str:
        """Its name with the parameters and their defaults."""
        defaults = ["", " := NULL"]
        parameters = [
            one + defaults[name not in self.first] for one, name in self.parameters.items()
        ]
        return f"{self.name}({', '.join(parameters)})"

    @property
    def statement(self) -> str:
        """The statement that makes it."""
        each = list(self.parameters)
        fields = [f"'{name}': {one}" for one, name in self.parameters.items()][self.direct :]
        given = [*each[: self.direct], f"{{{', '.join(fields)}}}"]
        return f"CREATE OR REPLACE TEMP MACRO {self.head} AS {self.call}{', '.join(given)});"


def texts() -> dict[str, str]:
    """Return the statement of every macro by its name; of those in ``sql/`` with their comments."""
    found = {macro.name: macro.statement for macro in made()}
    for file in resources.files("dbselect.sql").iterdir():
        if file.name.endswith(".sql"):
            found[file.name.removesuffix(".sql")] = file.read_text()
    return dict(sorted(found.items()))


def made() -> list[Macro]:
    """Return the macros that are made from options."""
    of_rows = [one for one in options_of(ProblemOptions) if one not in ("family", "gram", "terms")]
    of_wide = ("weight", "scale", "ridge", "null_policy", "always", "rows", "seed")
    first = ("query_or_table", "target")
    return [
        *(_of_record(name, method) for name, method in OF_RECORDS.items()),
        _of_table("anytime_sequence_glm", (*first, "family"), of_rows, ("c_min", "screen")),
        _of_table("anytime_sequence_wide", first, of_wide, ("max_iter", "tol")),
    ]


def sql_type(type_: pa.DataType) -> str:
    """Return what an Arrow type is called in SQL."""
    if isinstance(type_, pa.StructType):
        fields = ", ".join(f'"{field.name}" {sql_type(field.type)}' for field in type_)
        return f"STRUCT({fields})"
    if isinstance(type_, pa.MapType):
        return f"MAP({sql_type(type_.key_type)}, {sql_type(type_.item_type)})"
    if isinstance(type_, pa.ListType):
        return f"{sql_type(type_.value_type)}[]"
    return _SQL_TYPES[type_]


def _of_record(name: str, method: Method) -> Macro:
    """Return the macro of a method of a record: places first, then all options by name."""
    places = places_of(method)
    required = [one for one in places if method.known[one].default is REQUIRED]
    first = ("record", "target", *required)
    placed = (*(one for one in places if one not in required), "options")
    groups = () if "columns" in places else _GROUPS
    options = (one for one in method.in_engines if one not in places)
    named = (*groups, *options, *method.fields_in_engines)
    return Macro(name, first, placed, named, f"system.main.{name}(", len(first) + len(placed))


def _of_table(
    name: str, first: tuple[str, ...], fields: Iterable[str], without: tuple[str, ...]
) -> Macro:
    """Return a macro of `anytime_sequence` of a table that is read again and again."""
    left_out = ("callback", "resume", *options_of(LedOptions), *without)
    own = (one for one in options_of(AnytimeOptions) if one not in left_out)
    function = name.replace("anytime", "dbselect")
    call = f"{function}(getvariable('dbselect_connection'), current_setting('search_path'), "
    return Macro(name, first, ("options",), (*_GROUPS, *own, *fields), call, len(first))
