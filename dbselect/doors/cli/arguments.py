"""What several commands take: a source, the fields of a problem, and options of methods."""

import argparse
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from dbselect.errors import ArgumentError
from dbselect.options.option import REQUIRED, Option

#: Of an option without a default: where nothing is given, the table of options has one.
UNSET = argparse.SUPPRESS
#: Settings of an option that takes several values, at once or one after the other.
SEVERAL: dict[str, Any] = {"nargs": "+", "action": "extend"}
#: What a table can be.
SOURCE = "file, folder or glob of Parquet, CSV, TSV, NDJSON or Arrow, or Delta or Iceberg table"
#: Options read from a JSON file, and the content of that file.
_JSON = {
    "groups": "name -> list of columns or globs",
    "costs": "name -> cost > 0",
    "penalty_factors": "column, glob or group -> factor >= 0",
    "grid": "option -> values to try",
}


def add_source(parser: argparse.ArgumentParser) -> None:
    """Add a table or a Gram."""
    parser.add_argument("source", help=f"{SOURCE}; or what 'gram' wrote, - from a pipe")


def add_problem(parser: argparse.ArgumentParser, *, fields: Iterable[str] | None = None) -> None:
    """Add the options of a problem; `fields` names those that make sense, by default all."""
    from dbselect.options.fields import ProblemOptions
    from dbselect.options.option import options_of

    parser.add_argument(
        "--target",
        required=True,
        action="append",
        help="column to predict; given twice, two responses that share the groups",
    )
    known = options_of(ProblemOptions)
    names = ["groups", "costs", *(known if fields is None else fields)]
    for name in names:
        if name == "null_policy":
            add_null_policy(parser)
        elif name in _JSON:
            _add_json(parser, name)
        else:
            add_option(parser, name, known[name])


def add_option(parser: argparse.ArgumentParser, name: str, option: Option) -> None:
    """Add an option of a method as a flag, if it can be parsed from text."""
    kind = option.kind
    if name in _JSON:
        _add_json(parser, name)
        return
    if kind.parse is None:
        return
    settings: dict[str, Any] = {"type": _parsed(option), "default": UNSET, "help": _help(option)}
    if kind.several:
        settings |= SEVERAL
    if kind.sql == "BOOLEAN":
        settings["metavar"] = "yes|no"
    parser.add_argument(_flag(name), required=option.default is REQUIRED, **settings)


def add_flags(parser: argparse.ArgumentParser, texts: Mapping[str, str], **settings: Any) -> None:
    """Add options by name with their help; those that are not given are left to Python."""
    for name, told in texts.items():
        parser.add_argument(_flag(name), default=UNSET, help=told, **settings)


def _add_json(parser: argparse.ArgumentParser, name: str) -> None:
    parser.add_argument(_flag(name), metavar="FILE", help=f"JSON file: {_JSON[name]}")


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _help(option: Option) -> str:
    """Return the text of an option for a terminal, where no quotes set names off."""
    text = (
        "no:" + option.text.removeprefix("False")
        if option.text.startswith("False")
        else option.text
    )
    return text.replace('``"', "").replace('"``', "").replace("`", "").replace("%", "%%")


def _parsed(option: Option) -> Any:
    kind = option.kind
    assert kind.parse is not None

    def parse(text: str) -> Any:
        assert kind.parse is not None
        try:
            return kind.parse(text)
        except ValueError:
            wanted = "be yes or no" if kind.sql == "BOOLEAN" else kind.words or "be a number"
            raise argparse.ArgumentTypeError(f"'{text}' must {wanted}") from None

    return parse


def add_null_policy(parser: argparse.ArgumentParser) -> None:
    """Add what happens to missing values."""
    told = (
        "missing values: skip their row, error, mean, or indicator (0 and a column of 0 and 1); "
        "COLUMNS is a name or a glob, and the last that means a column holds"
    )
    add_flags(parser, {"null-policy": told}, nargs="+", metavar="[COLUMNS=]POLICY")


def add_prediction(parser: argparse.ArgumentParser) -> None:
    """Add a sequence, or a model, and what it may spend."""
    parser.add_argument(
        "sequence", help="file that 'sequence --out' wrote, or of a stored model; - from a pipe"
    )
    add_flags(parser, {"budget": "the longest prefix within it predicts"}, type=float)
    told = "levels that the fit has not seen: unavailable, error or mean"
    add_flags(parser, {"handle-unknown": told})


def options_given(options: argparse.Namespace, names: Iterable[str]) -> dict[str, Any]:
    """Return those of some options that were given, by the names of Python."""
    found = {}
    for name in names:
        if name in _JSON:
            value = read_option(getattr(options, name, None), _flag(name))
            if value is not None:
                found[name] = value
        elif name in options:
            found[name] = getattr(options, name)
    if "null_policy" in found:
        found["null_policy"] = _policies(found["null_policy"])
    return found


def problem_given(options: argparse.Namespace) -> dict[str, Any]:
    """Return what was given of a problem: target, groups, costs and fields."""
    from dbselect.options.names import PROBLEM_FIELDS

    target = options.target[0] if len(options.target) == 1 else options.target
    return {"target": target, **options_given(options, ("groups", "costs", *PROBLEM_FIELDS))}


def _policies(texts: list[str]) -> Any:
    pairs = [text.rpartition("=") for text in texts]
    policies = {columns if equals else "*": policy for columns, equals, policy in pairs}
    # A stored Gram takes no policy but the plain one.
    return policies["*"] if list(policies) == ["*"] else policies


def read_option(path: str | None, option: str) -> Any:
    """Return what a JSON file holds, None if none was given."""
    if path is None:
        return None
    try:
        return json.loads(Path(path).read_text())
    except OSError as error:
        raise ArgumentError(
            f"{option} is '{path}'; it must be a JSON file: {error.strerror}"
        ) from None
    except ValueError as error:
        raise ArgumentError(f"{option}: '{path}' is not JSON: {error}") from None
