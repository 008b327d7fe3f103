"""Options: annotations of `TypedDict` fields, from which all interfaces are built."""

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import cache
from typing import Any, TypeVar, cast, get_args

from dbselect.errors import OptionError, unknown
from dbselect.options.kinds import Kind
from dbselect.options.names import PROBLEM_FIELDS

#: Default of a required option.
REQUIRED: Any = inspect.Parameter.empty
#: Options of `fit` that no search takes.
CONSTRAINTS = ("signs", "uncorrelated")

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True)
class Option:
    """One option."""

    default: Any  # the default value; `REQUIRED` if there is none
    kind: Kind  # the allowed values; None is also allowed if it is the default
    text: str  # description, to follow ``name :`` in a docstring
    in_engines: bool = True  # whether SQL and Polars take it for a Gram record

    def checked(self, name: str, value: Any) -> Any:
        """Check a value; iterators become lists, fractions and decimals become doubles."""
        if value is self.default:
            return value
        if isinstance(value, Iterator):
            value = list(value)
        elif isinstance(value, Decimal):
            value = float(value)
        self.kind.check(name, value)
        return float(value) if isinstance(value, Fraction) else value


@cache
def options_of(table: type) -> dict[str, Option]:
    """Return the options of a `TypedDict` by name, in the order of declaration."""
    # Unevaluated, as they may name modules of higher layers.
    return {name: _option(hint) for name, hint in table.__annotations__.items()}


def _option(hint: Any) -> Option:
    """Return the `Option` in an annotation, which may be wrapped in `Required`."""
    while get_args(hint):
        option = next((part for part in get_args(hint) if isinstance(part, Option)), None)
        if option is not None:
            return option
        hint = get_args(hint)[0]
    raise TypeError(f"{hint} has no Option")


def checked_options(table: type[T], method: str, options: Mapping[str, Any]) -> T:
    """Return all options, checked, with defaults; OptionError if unknown or missing."""
    declared: dict[str, Option] = options_of(cast("type", table))
    check_known(method, options, declared)
    values: dict[str, Any] = {}
    for name, option in declared.items():
        if name in options:
            values[name] = option.checked(name, options[name])
        elif option.default is REQUIRED:
            raise OptionError(f"{method} needs option '{name}', which has no default")
        else:
            values[name] = option.default
    return cast("T", values)


def check_known(method: str, names: Iterable[str], known: Iterable[str]) -> None:
    """Raise OptionError for an option that a method does not have."""
    allowed = list(dict.fromkeys(known))
    for name in names:
        if name in allowed:
            continue
        if name in PROBLEM_FIELDS:
            raise OptionError(
                f"{method} has no option '{name}', which is a field of the problem: "
                f"problem.replace({name}=...).{method}(...)"
            )
        if name in CONSTRAINTS:
            raise OptionError(
                f"{method} has no option '{name}': its order and bounds are those of least "
                f"squares, and under {name} a group that gains nothing alone may pay beside "
                "others; fit takes it, for the groups that are chosen"
            )
        raise OptionError(f"{method} has {unknown('option', name, allowed)}")


def changed(table: type, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that differ from their defaults."""
    declared = options_of(table)
    return {name: value for name, value in options.items() if not is_default(declared[name], value)}


def is_default(option: Option, value: Any) -> bool:
    """Whether a value is the default of an option."""
    try:
        return bool(value is option.default or value == option.default)
    except (TypeError, ValueError):  # frames cannot be compared
        return False


def parameters_of(table: type) -> list[inspect.Parameter]:
    """Return the options as keyword parameters of a signature."""
    keyword = inspect.Parameter.KEYWORD_ONLY
    return [
        inspect.Parameter(name, keyword, default=option.default)
        for name, option in options_of(table).items()
    ]


def option_lines(options: Mapping[str, Option]) -> list[str]:
    """Return the docstring lines of options."""
    return [f"{name} : {option.text}" for name, option in options.items()]


def shows(
    *tables: type, first: Sequence[str] = (), like: Callable[..., Any] | None = None
) -> Callable[[F], F]:
    """Return a decorator that adds options to a function's signature and docstring.

    The signature has no types: the docstring has them, and type checkers read the annotations.
    `first`: docstring lines of parameters not in the tables; `like`: function with the other text.
    """

    def decorate(function: F) -> F:
        signature = inspect.signature(function)
        parameters = without_types(signature).parameters.values()
        named = [p for p in parameters if p.kind is not p.VAR_KEYWORD]
        # Options of any other method, for which there is no table.
        keywords = [p for p in parameters if p.kind is p.VAR_KEYWORD]
        if like is not None and hasattr(like, PROSE):
            is_open = "options" in inspect.signature(like).parameters
        else:
            is_open = any(signature.parameters[p.name].annotation is Any for p in keywords)
        others = keywords if is_open else []
        taken = {parameter.name for parameter in named}
        options = {name: option for table in tables for name, option in options_of(table).items()}
        added = {
            option.name: option for table in tables for option in parameters_of(table)
            if option.name not in taken
        }  # fmt: skip
        # Required options come first, where readers look for them.
        order = sorted(added.values(), key=lambda option: option.default is not REQUIRED)
        prose = getattr(like or function, PROSE, None) or (like or function).__doc__ or ""
        placed = {name: option for name, option in options.items() if name in taken}
        texts = option_lines(placed | {option.name: options[option.name] for option in order})
        shown = inspect.Signature([*named, *order, *others])
        for name, value in {"__signature__": shown, PROSE: prose}.items():
            setattr(function, name, value)
        lines = in_order([*first, *texts], list(shown.parameters))
        function.__doc__ = with_parameters(prose, lines)
        return function

    return decorate


def in_order(lines: Sequence[str], names: Sequence[str]) -> list[str]:
    """Return the docstring lines of the named parameters, in the order of the names."""
    place = {name: at for at, name in enumerate(names)}
    firsts = {line: line.split(" :")[0].split(",")[0] for line in lines}
    return sorted((line for line in lines if firsts[line] in place), key=lambda x: place[firsts[x]])


def without_types(signature: inspect.Signature) -> inspect.Signature:
    """Return a signature without annotations, which is easier to read in `help`."""
    plain = [p.replace(annotation=p.empty) for p in signature.parameters.values()]
    return inspect.Signature(plain)


#: Attribute of a function with its docstring without the parameters of options.
PROSE = "__prose__"
#: Docstring sections that follow the parameters.
_SECTIONS = ("Returns", "Raises", "Warns", "Notes", "References", "Examples")


def with_parameters(doc: str, lines: Sequence[str]) -> str:
    """Insert the section of parameters into a docstring, after the summary."""
    text = inspect.cleandoc(doc)
    at = min((text.find(f"\n{name}\n-") for name in _SECTIONS if f"\n{name}\n-" in text),
             default=len(text))  # fmt: skip
    head, tail = text[:at].rstrip(), text[at:].lstrip("\n")
    section = "Parameters\n----------"
    if f"\n{section}" in head:
        section = ""
    parts = [head, "\n".join(part for part in (section, *lines) if part)]
    joined = "\n".join(parts) if not section else "\n\n".join(parts)
    return f"{joined}\n\n{tail}" if tail else joined + "\n"
