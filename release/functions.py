"""Write the table behind ``FROM dbselect.functions()``, and the page of the whole API.

``python release/functions.py`` after a function or an option changes, with the library built: it
writes ``native/src/hosts/duckdb/functions.sql``, which the extension runs when it is loaded,
``docs/whole-api.md``, and the arguments of ``docs/duckdb-functions.md``. Tests hold them against
what it would write.
"""

import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import dbselect as ds
from dbselect.doors.sql import made, texts
from dbselect.options.option import REQUIRED, Option, options_of
from dbselect.spec.fields import ProblemOptions
from dbselect.spec.methods import METHODS, OF_RECORDS

ROOT = Path(__file__).parents[1]
SQL = ROOT / "native" / "src" / "hosts" / "duckdb" / "functions.sql"
PAGE = ROOT / "docs" / "whole-api.md"
CALLS = ROOT / "docs" / "duckdb-functions.md"
HEAD = """# The whole API on one page

Written by `release/functions.py` from the tables that the calls themselves read. `source` is a
path, frame, relation or Gram; `groups` maps names to columns or globs; `costs` maps these names to
numbers > 0. Every method takes the fields of a problem, which come first, or
[refuses them](fields.md) in a sentence. `FROM dbselect.functions()` has the functions of SQL as a
table, with the options of each.
"""
#: Methods that take columns instead of groups.
NO_GROUPS = ("fit",)
#: Words of SQL -> the option that they stand for.
NAMED = {"offset_column": "offset"}
#: Function -> how many parameters are passed by their place, where these are not record and target.
PLACES = {"gram": 1, "gram_missing": 1, "gram_mean": 1, "model_sql": 1, "a_optimal": 3,
          "gram_extend": 3, "predict_available": 3, "allocate": 1, "allocate_summary": 1,
          "gram_em": 1, "gram_patterns": 1}  # fmt: skip
#: Parameters that are no option of a method: type, default, text.
OTHERS = {
    "options": ("STRUCT", None, "the options by name, instead of named arguments"),
    "groups": ("STRUCT or MAP", None, "name -> list of columns or globs; default: every field"),
    "costs": ("STRUCT or MAP", None, "name -> cost > 0, in any one unit; default: 1 each"),
    "weight": ("DOUBLE", None, "weight of the row, >= 0"),
    "max_levels": ("BIGINT", None, "most levels of a text, the others as one; default: at most "
                   "1,000, else an error"),
    "budget": ("DOUBLE", None, "limit on the cost, in the unit of the costs; default: none"),
    "handle_unknown": ("VARCHAR", "unavailable", "for a level that was not fitted: 'unavailable', "
                       "'error' or 'mean'"),
    "missing_columns": ("VARCHAR", "error", "for a column that the row lacks: 'error' or "
                        "'unavailable'"),
    "level": ("DOUBLE", None, "probability of the interval; default: no interval"),
    "beta2": ("DOUBLE", "1.0", "prior precision of each coefficient, > 0"),
    "sigma2": ("DOUBLE", "1.0", "variance of the noise, > 0"),
    "scale_rows": ("BOOLEAN", "false", "whether each row is scaled to norm 1"),
    "max_bytes": ("BIGINT", "2147483648", "most bytes of rows that a group keeps"),
    "key": ("VARCHAR[] or STRUCT", None, "key fields of the table; default: as in the sums"),
    "name": ("VARCHAR", None, "STRUCT field that the columns are put into"),
    "unmatched": ("VARCHAR", "indicator", "for keys that the table lacks: 'indicator', 'skip' or "
                  "'error'"),
    "columns": ("VARCHAR[]", None, "names and globs; default: all"),
    "seed": ("BIGINT", "0", "decides the draws"),
    "max_patterns": ("BIGINT", "200", "most patterns of what is missing"),
    "max_iterations": ("BIGINT", "500", "most iterations of EM"),
    "tolerance": ("DOUBLE", "1e-8", "largest move of a mean, in deviations, or a correlation "
                  "in the last step"),
    "prior": ("DOUBLE", None, "rows without correlations of columns that are added"),
    "rows": ("VARCHAR", "rows", "column of the rows of a segment"),
    "worth": ("DOUBLE or VARCHAR", None, "what a unit is worth in the unit of cost; for allocate a "
              "column of it"),
    "accept_above": ("DOUBLE", None, "a row is accepted where worth times (prediction - this) is "
                     "above 0"),
    "payoff": ("DOUBLE[]", None, "[gain, loss] of an accepted row whose target is 1, and 0"),
    "target": ("VARCHAR", None, "column to predict; default: that of the model"),
    "null_policy": ("VARCHAR", "skip", "rows with a NULL; only 'skip'"),
}  # fmt: skip
#: Arguments of examples.
GIVEN = {
    "record": "g", "target": "'y'", "k": "1", "budget": "1.0", "max_columns": "2",
    "max_groups": "1", "tested": "['a']", "row": "{'a': a, 'b': b, 'y': y}", "family": "'binomial'",
}  # fmt: skip
ROWS = "(SELECT i % 3 AS a, i % 5 AS b, (i * i % 7 > 2)::INT AS y FROM range(40) r(i)) t"
GRAM = f"(SELECT gram(t) AS g FROM {ROWS})"
MODEL = f"(SELECT fit(gram(t), 'y') AS m, anytime_sequence(gram(t), 'y') AS s FROM {ROWS})"
#: Functions without named arguments, and calls that no rule makes: arguments, text, example.
MORE = {
    "gram_merge": ("record", "one record of all rows of several, an aggregate",
                   f"SELECT gram_merge(g).rows FROM {GRAM}"),
    "gram_remove": ("a, b", "the record a without the rows of b, which is a part of it",
                    f"SELECT gram_remove(g, g) FROM {GRAM}"),
    "gram_select": ("record, columns", "the record of some columns",
                    f"SELECT gram_select(g, ['a', 'y']) FROM {GRAM}"),
    "gram_impute": ("record", "a record of gram_missing with means in place of indicators",
                    f"SELECT gram_impute(gram_missing(t)) FROM {ROWS}"),
    "glm_mean": ("family, predictor", "the mean of the target at a linear predictor",
                 "SELECT glm_mean('binomial', 0.5)"),
    "key_sums": ("key, record", "the records of the facts by key as one value, for gram_extend",
                 "SELECT dbselect.key_sums({'a': a}, g) FROM (SELECT a, gram(t) AS g FROM "
                 f"{ROWS} GROUP BY a)"),
    "memory_limit": ("[bytes]", "how much memory all groups may hold; sets it, if it is given",
                     "SELECT dbselect.memory_limit()"),
}  # fmt: skip
#: Sentences where the comment in the catalog refers to the function before.
ABOUT = {
    "gram_missing": "The Gram record of rows, with indicators where numbers are missing",
    "gram_mean": "The Gram record of rows, with the mean where numbers are missing",
    "glm_predict": "What a model or a sequence of a family predicts",
}
EXAMPLES = {
    "gram_patterns": f"SELECT dbselect.gram_patterns({{'a': a, 'y': y}}) FROM {ROWS}",
    "gram_em": "SELECT dbselect.gram_em(p) FROM (SELECT dbselect.gram_patterns({'a': nullif(a, 2), "
    f"'y': y}}) AS p FROM {ROWS})",
    "evaluate": "SELECT dbselect.evaluate(m, g, target := 'y') FROM (SELECT fit(gram(t), 'y') AS "
    f"m, gram(t) AS g FROM {ROWS})",
    "a_optimal": f"SELECT dbselect.a_optimal(a + 3 * b, {{'a': a, 'b': b}}, 2) FROM {ROWS}",
    "fold_of": "SELECT dbselect.fold_of('order 17', 5)",
    "model_sql": f"SELECT dbselect.model_sql(m) FROM {MODEL}",
    "predict": f"SELECT dbselect.predict(m, {{'a': 1, 'b': 2}}) FROM {MODEL}",
    "anytime_predict": f"SELECT dbselect.anytime_predict(s, {{'a': 1}}, budget := 1) FROM {MODEL}",
    "glm_predict": "SELECT dbselect.glm_predict(m, {'a': 1, 'b': 2}) FROM (SELECT fit_glm({'a': a, "
    f"'b': b, 'y': y}}, 'y', 'binomial') AS m FROM {ROWS})",
    "knockoffs": f"SELECT dbselect.knockoffs(g, 'y', q := 0.6) FROM {GRAM}",
    "break_even": f"SELECT dbselect.break_even(g, 'y', worth := 10) FROM {GRAM}",
    "predict_available": "SELECT dbselect.predict_available(g, 'y', {'a': 1, 'b': NULL::DOUBLE}) "
    f"FROM {GRAM}",
    "gram_extend": "SELECT dbselect.gram_extend(gram_merge(g), dbselect.key_sums({'shop': shop}, "
    "g), (SELECT list({'shop': n, 'size': n * n}) FROM range(3) s(n))) FROM (SELECT a AS shop, "
    f"gram({{'b': b, 'y': y}}) AS g FROM {ROWS} GROUP BY shop)",
}  # fmt: skip
EXAMPLES |= {
    name: f"SELECT dbselect.{name}({{'a': a, 'y': y}}) FROM {ROWS}"
    for name in ("gram", "gram_missing", "gram_mean")
} | {
    name: "WITH of_segments AS (SELECT a, anytime_sequence(gram({'b': b, 'y': y}), 'y') AS "
    f"sequence, count(*) AS rows FROM {ROWS} GROUP BY a) "
    f"FROM dbselect.{name}('of_segments', budget := 0.5)"
    for name in ("allocate", "allocate_summary")
}


def functions() -> Iterator[tuple[str, str, list[tuple[str, str, str | None, str]], str, str]]:
    """Yield each function: name, arguments, options, one sentence, an example."""
    with ds.connect() as connection:
        rows = connection.execute(
            "SELECT function_name, parameters, split_part(comment, ': dbselect.', 1) FROM "
            "duckdb_functions() WHERE database_name = 'dbselect' AND comment IS NOT NULL"
        ).fetchall()
    for name, parameters, about in rows:
        method = OF_RECORDS.get(name) or METHODS.get(name.removesuffix("_glm"))
        known = options_of(ProblemOptions) | METHODS["anytime_sequence"].known
        known |= method.known if method else {}
        by_rows = "family" in parameters
        places = parameters[: PLACES.get(name, 2 + by_rows)]
        if method is not None and not by_rows:
            required = [one for one, option in method.known.items() if option.default is REQUIRED]
            places += [one for one in required if one in parameters]
        call = ", ".join(GIVEN.get(one, one) for one in places)
        example = EXAMPLES.get(
            name, f"SELECT dbselect.{name}({call}) FROM {ROWS if by_rows else GRAM}"
        )
        if method is None:
            known = {one: option for one, option in known.items() if one not in OTHERS}
        options = [_described(one, known) for one in parameters if one not in places]
        arguments = ", ".join([*places, *(f"{one} :=" for one, *_ in options)])
        yield name, arguments, options, f"{ABOUT.get(name, about)}.", example
    for name, (arguments, about, example) in MORE.items():
        yield name, arguments, [], f"{about[0].upper()}{about[1:]}.", example


def _described(name: str, known: dict[str, Option]) -> tuple[str, str, str | None, str]:
    option = known.get(NAMED.get(name, name))
    if option is None or option.kind.sql is None or name in ("weight", "null_policy"):
        if name in OTHERS:
            return name, *OTHERS[name]
        return name, "STRUCT or MAP", None, _plain(option.text) if option else ""
    default = None if option.default in (None, REQUIRED) else str(option.default)
    default = default.lower() if isinstance(option.default, bool) else default
    return name, option.kind.sql, default, _plain(option.text)


def _plain(text: str) -> str:
    return text.replace('``"', "'").replace('"``', "'").replace("``", "").replace("`", "")


def _quoted(text: str | None) -> str:
    return "NULL" if text is None else f"'{text.replace(chr(39), chr(39) * 2)}'"


def table() -> str:
    """Return the statement that makes the table function."""
    lines = []
    for name, arguments, options, about, example in sorted(functions()):
        rows = ", ".join(f"({', '.join(map(_quoted, option))})" for option in options)
        cells = ", ".join(map(_quoted, (name, arguments)))
        lines.append(f"({cells}, [{rows}], {_quoted(about)}, {_quoted(example)})")
    text = ",\n".join(lines)
    return (
        "CREATE OR REPLACE MACRO dbselect.main.functions() AS TABLE SELECT name, arguments, "
        "list_transform(options, lambda o: {'name': o[1], 'type': o[2], 'default': o[3], "
        "'description': o[4]}) AS options, description, example FROM (VALUES\n"
        f"{text}) AS _(name, arguments, options, description, example)\n"
    )


def page() -> str:
    """Return the page with every call, option and function."""
    parts = [HEAD, "## Methods of a problem\n", _lines(options_of(ProblemOptions))]
    for name, method in METHODS.items():
        first = "" if name in NO_GROUPS else ", groups, costs"
        required = "".join(f", {one}" for one, o in method.known.items() if o.default is REQUIRED)
        parts += [
            f"### {name}\n",
            f"`ds.{name}(source, target{first}{required}, ...)`: {method.about}.\n",
        ]
        parts.append(_lines(method.known))
    parts.append("## Other names of Python\n")
    for name in sorted(ds.__all__):
        thing = getattr(ds, name)
        if name not in METHODS and not inspect.ismodule(thing):
            parts.append(f"- `ds.{name}`: {_first(thing)}")
    for room in ("io", "reference", "objectives", "results", "sklearn"):
        module = getattr(ds, room)
        parts += [
            f"- `ds.{room}.{name}`: {_first(getattr(module, name))}" for name in module.__all__
        ]
    parts.append("\n## Functions of SQL\n")
    for name, arguments, _, about, example in sorted(functions()):
        parts.append(f"- `{name}({arguments})`: {about} `{example}`")
    return "\n".join(parts) + "\n"


def with_arguments(page: str) -> str:
    """Return the page of DuckDB's functions with the arguments that the macros have."""
    statements = texts()
    placed = {macro.name: macro.placed for macro in made()}

    def call(found: re.Match[str]) -> str:
        name = found[1]
        if name not in statements:
            return found[0]
        head = re.search(rf"MACRO {name}\(\s*(.*?)\s*\)\s+AS", statements[name], re.DOTALL)
        assert head is not None, name
        text = ""
        for one in head[1].split(","):
            key, *default = one.split()
            key = key.strip('"')
            if not default:
                text += f", {key}"
            elif key in placed.get(name, ()):
                text += f" [, {key}]"
            else:
                text += f", {key} :="
        return f"`{name}({text.removeprefix(', ')})`"

    return re.sub(r"`(\w+)\([^`\n]*\)`(?= \|)", call, page)


def _lines(options: dict[str, Option]) -> str:
    return "".join(
        f"- `{name}{'' if option.default is REQUIRED else f'={option.default!r}'}`: "
        f"{option.text}\n".replace("``", "`")
        for name, option in options.items()
    )


def _first(thing: object) -> str:
    return ((inspect.getdoc(thing) or "").split("\n\n")[0]).replace("\n", " ").replace("``", "`")


if __name__ == "__main__":
    SQL.write_text(table())
    PAGE.write_text(page())
    CALLS.write_text(with_arguments(CALLS.read_text()))
