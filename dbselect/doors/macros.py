"""The SQL macros of the methods: named arguments for what the extension answers.

They are made from the options of each method (`dbselect.options`), so that a name and its text
stand once. Macros without options of a method are written out in ``sql/``.
"""

import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources

import pyarrow as pa

from dbselect.methods.records import answer_type
from dbselect.options.fields import ProblemOptions
from dbselect.options.methods import OF_RECORDS, Method, places_of
from dbselect.options.option import REQUIRED, Option, options_of
from dbselect.options.table import AnytimeOptions, LedOptions
from dbselect.record.steps import STEP_TYPE
from dbselect.results.glm.store import GLM_TYPE

_SQL_TYPES = {
    pa.int64(): "BIGINT",
    pa.string(): "VARCHAR",
    pa.float64(): "DOUBLE",
    pa.bool_(): "BOOLEAN",
}
_FIRST = {
    "record": "Gram record, as gram(...) returns it",
    "target": "column to predict",
}
_TABLE = {
    "query_or_table": "text: the name of a table or view, as SQL writes it, or one query, which is "
    "run in every pass and must give the same rows each time",
    "target": "column to predict",
}
_OPTIONS = {"options": "STRUCT of what follows, by name; NULL is the default everywhere"}
_GROUPS = {
    "groups": "STRUCT or MAP: name -> list of columns or globs; default: every top-level field",
    "costs": "STRUCT or MAP: name -> cost > 0, in any one unit; default: 1 each",
}
#: Words of SQL that are no name of a parameter.
_RESERVED = {"offset": "offset_column"}
_FIELDS = {parameter: name for name, parameter in _RESERVED.items()}
_PASSES = (
    "Limits: the passes run on a connection of their own. They see the data committed when the "
    "call began, and neither temporary tables, views and macros nor Python objects; for those, "
    "call dbselect.anytime_sequence(con.table(...), ...) in Python. Ctrl-C ends the search with "
    "the steps so far, but only where DuckDB runs the call on the main thread, which depends on "
    "the query; elsewhere the query ends when the call does."
)


@dataclass(frozen=True)
class Macro:
    """A macro: its parameters, the function it calls, and its description."""

    name: str  # of the macro
    about: str  # what it does
    first: Mapping[str, str]  # parameters without a default, by name with their texts
    placed: Mapping[str, str]  # those with a default that come next
    named: Mapping[str, str]  # those that are passed by name, and go into one STRUCT
    call: str  # the function, with arguments before those of the macro
    returned: pa.DataType  # type of the answer
    without: str  # what is returned where there is none
    # number of parameters that the function takes as they are; the others go into the STRUCT
    direct: int = 2
    notes: str = ""  # further remarks

    def text(self) -> str:
        """Return the statement that makes the macro, after a comment that documents it."""
        parameters = [f"{one} := NULL" for one in [*self.placed, *self.named]]
        head = f"{self.name}({', '.join([*self.first, *parameters])})"
        names = [*self.first, *self.placed, *self.named]
        direct, others = ", ".join(names[: self.direct]), names[self.direct :]
        fields = ", ".join(f"'{_FIELDS.get(name, name)}': {name}" for name in others)
        body = f"CREATE OR REPLACE TEMP MACRO {head} AS {self.call}{direct}, {{{fields}}});"
        return f"{self._comment(head)}\n{_filled(body, '    ', 100)}\n"

    def _comment(self, head: str) -> str:
        texts = {**self.first, **self.placed, **self.named}
        width = max(map(len, texts)) + 4
        lines = [
            _filled(f"  {name}".ljust(width + 2) + _sql(text), " " * (width + 2))
            for name, text in texts.items()
        ]
        returned = sql_type(self.returned).replace('"', "")
        about = f"{self.about[0].upper()}{self.about[1:]}."
        blocks = [
            _filled(head, " " * (len(self.name) + 1)),
            _filled(_sql(about)),
            "\n".join(lines),
            _filled(f"Returns {returned}; {self.without}."),
            _filled(self.notes),
        ]
        text = "\n\n".join(block for block in blocks if block)
        return "\n".join(f"-- {line}".rstrip() for line in text.split("\n"))


def texts() -> dict[str, str]:
    """Return the statement of every macro by its name, after a comment that documents it."""
    made = [_of_record(name, method) for name, method in OF_RECORDS.items()]
    found = {macro.name: macro.text() for macro in [*made, _of_family(), _of_wide_table()]}
    for file in resources.files("dbselect.sql").iterdir():
        if file.name.endswith(".sql"):
            found[file.name.removesuffix(".sql")] = file.read_text()
    return dict(sorted(found.items()))


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
    known = method.in_engines
    places = {place: known.pop(place) for place in places_of(method)}
    required = {place: one for place, one in places.items() if one.default is REQUIRED}
    optional = {place: one for place, one in places.items() if place not in required}
    groups = {} if "columns" in places else _GROUPS
    fields = method.fields_in_engines
    first, placed = _FIRST | _texts(required), _texts(optional) | _OPTIONS
    without = "empty" if method.returns == "sequence" else "NULL"
    return Macro(
        name, method.about, first, placed, groups | _texts(known | fields), f"system.main.{name}(",
        answer_type(name), f"{without} if the record is unusable; gram_check returns why",
        direct=len({**first, **placed}),
    )  # fmt: skip


def _of_family() -> Macro:
    fields = _texts({
        name: option for name, option in options_of(ProblemOptions).items()
        if name not in ("family", "gram", "terms")
    })  # fmt: skip
    family = options_of(ProblemOptions)["family"]
    return _of_table(
        "anytime_sequence_glm",
        "order groups by how much of the deviance of a family each explains for its cost",
        _TABLE | _texts({"family": family}), fields, ("c_min", "screen"), GLM_TYPE,
    )  # fmt: skip


def _of_wide_table() -> Macro:
    names = ("weight", "scale", "ridge", "null_policy", "always", "rows", "seed")
    fields = _texts({name: options_of(ProblemOptions)[name] for name in names})
    return _of_table(
        "anytime_sequence_wide",
        "order groups of a table too wide for its Gram record, rows of which are read when the "
        "search asks for them. A MAP of numbers, or a LIST of STRUCTs of two, is a column x[17] "
        "for each entry",
        _TABLE, fields, ("max_iter", "tol"), pa.list_(STEP_TYPE),
    )  # fmt: skip


def _of_table(
    name: str,
    about: str,
    first: Mapping[str, str],
    fields: Mapping[str, str],
    without: tuple[str, ...],
    returned: pa.DataType,
) -> Macro:
    """Return a macro of `anytime_sequence` of a table that is read again and again."""
    own = {
        one: option for one, option in options_of(AnytimeOptions).items()
        if one not in ("callback", "resume", *options_of(LedOptions), *without)
    }  # fmt: skip
    function = name.replace("anytime", "dbselect")
    call = f"{function}(getvariable('dbselect_connection'), current_setting('search_path'), "
    named = {**_GROUPS, **_texts(own), **fields}
    return Macro(
        name,
        about,
        first,
        _OPTIONS,
        named,
        call,
        returned,
        "NULL without a table",
        direct=len(first),
        notes=_PASSES,
    )


def _texts(options: Mapping[str, Option]) -> dict[str, str]:
    """Return what options do, by the names of their parameters."""
    return {_RESERVED.get(name, name): option.text for name, option in options.items()}


def _sql(text: str) -> str:
    """Return a text of a docstring as SQL's comments have it."""
    return text.replace('``"', "'").replace('"``', "'").replace("``", "").replace("`", "")


def _filled(text: str, indent: str = "", width: int = 97) -> str:
    # A parameter stays on the line of its default, and a field on that of its value.
    kept = text.replace(" := ", "\u00a0:=\u00a0").replace("': ", "':\u00a0")
    lines = textwrap.fill(
        kept, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )
    return lines.replace("\u00a0", " ")
