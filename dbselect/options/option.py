"""One option of a method: it annotates the field of a `TypedDict` that all doors read."""

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

#: The default of an option that has none.
REQUIRED: Any = inspect.Parameter.empty

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True)
class Option:
    """One option."""

    default: Any  # what it is unless it is given; `REQUIRED`: it has to be given
    kind: Kind  # what it may be; None is allowed as well where it is the default
    text: str  # what it does, in words that follow ``name :``
    in_engines: bool = True  # whether SQL and Polars take it for a Gram record

    def checked(self, name: str, value: Any) -> Any:
        """Return a checked value, read once: a list of an iterator, a double of a fraction."""
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
    """Return the options of a method by name, in the order in which they are declared."""
    # As they stand: names in them may be those of modules above this one.
    return {name: _option(hint) for name, hint in table.__annotations__.items()}


def _option(hint: Any) -> Option:
    """Return the option of an annotation, which `Required` may wrap."""
    while get_args(hint):
        found = next((one for one in get_args(hint) if isinstance(one, Option)), None)
        if found is not None:
            return found
        hint = get_args(hint)[0]
    raise TypeError(f"{hint} has no Option")


def checked_options(table: type[T], method: str, options: Mapping[str, Any]) -> T:
    """Return all options, checked, with defaults; OptionError for an unknown or a missing one."""
    known: dict[str, Option] = options_of(cast(type, table))
    check_known(method, options, known)
    found: dict[str, Any] = {}
    for name, option in known.items():
        if name in options:
            found[name] = option.checked(name, options[name])
        elif option.default is REQUIRED:
            raise OptionError(f"{method} needs option '{name}', which has no default")
        else:
            found[name] = option.default
    return cast(T, found)


def check_known(method: str, names: Iterable[str], known: Iterable[str]) -> None:
    """Refuse an option that a method does not have."""
    listed = list(dict.fromkeys(known))
    for name in names:
        if name in listed:
            continue
        if name in PROBLEM_FIELDS:
            raise OptionError(
                f"{method} has no option '{name}', which is a field of the problem: "
                f"problem.replace({name}=...).{method}(...)"
            )
        raise OptionError(f"{method} has {unknown('option', name, listed)}")


def changed(table: type, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return those options that are not at their defaults."""
    known = options_of(table)
    return {name: value for name, value in options.items() if not is_default(known[name], value)}


def is_default(option: Option, value: Any) -> bool:
    """Whether a value is the default of an option."""
    try:
        return bool(value is option.default or value == option.default)
    except (TypeError, ValueError):  # a frame does not compare
        return False


def parameters_of(table: type) -> list[inspect.Parameter]:
    """Return the options as keyword parameters of a signature."""
    keyword = inspect.Parameter.KEYWORD_ONLY
    return [
        inspect.Parameter(name, keyword, default=option.default)
        for name, option in options_of(table).items()
    ]


def option_lines(options: Mapping[str, Option]) -> list[str]:
    """Return the lines of a docstring that say what each option does."""
    return [f"{name} : {option.text}" for name, option in options.items()]


def shows(
    *tables: type, first: Sequence[str] = (), like: Callable[..., Any] | None = None
) -> Callable[[F], F]:
    """Give a function the signature and the documented parameters of its options.

    The signature has no types, which the texts say; type checkers read function and tables.
    `first` are lines of the docstring for parameters not in the tables; `like` has the rest of it.
    """

    def decorate(function: F) -> F:
        signature = inspect.signature(function)
        every = without_types(signature).parameters.values()
        own = [one for one in every if one.kind is not one.VAR_KEYWORD]
        # Options of another method, of which there is no one table.
        left = [one for one in every if one.kind is one.VAR_KEYWORD]
        if like is not None and hasattr(like, PROSE):
            is_open = "options" in inspect.signature(like).parameters
        else:
            is_open = any(signature.parameters[one.name].annotation is Any for one in left)
        others = left if is_open else []
        taken = {one.name for one in own}
        options = {name: one for table in tables for name, one in options_of(table).items()}
        added = {
            one.name: one for table in tables for one in parameters_of(table)
            if one.name not in taken
        }  # fmt: skip
        # What has no default comes first, as a reader looks for it there.
        order = sorted(added.values(), key=lambda one: one.default is not REQUIRED)
        prose = getattr(like or function, PROSE, None) or (like or function).__doc__ or ""
        placed = {name: one for name, one in options.items() if name in taken}
        texts = option_lines(placed | {one.name: options[one.name] for one in order})
        shown = inspect.Signature([*own, *order, *others])
        for name, value in {"__signature__": shown, PROSE: prose}.items():
            setattr(function, name, value)
        lines = in_order([*first, *texts], list(shown.parameters))
        function.__doc__ = with_parameters(prose, lines)
        return function

    return decorate


def in_order(lines: Sequence[str], names: Sequence[str]) -> list[str]:
    """Return the lines that document some parameters, in the order of these."""
    place = {name: at for at, name in enumerate(names)}
    firsts = {line: line.split(" :")[0].split(",")[0] for line in lines}
    return sorted((line for line in lines if firsts[line] in place), key=lambda x: place[firsts[x]])


def without_types(signature: inspect.Signature) -> inspect.Signature:
    """Return a signature of names and defaults, as `help` shows it best."""
    plain = [one.replace(annotation=one.empty) for one in signature.parameters.values()]
    return inspect.Signature(plain)


#: Attribute of a function that keeps its docstring without the parameters of its options.
PROSE = "__prose__"
#: Where the documented parameters go in a docstring: before these sections.
_SECTIONS = ("Returns", "Raises", "Warns", "Notes", "References", "Examples")


def with_parameters(doc: str, lines: Sequence[str]) -> str:
    """Return a docstring with the section of its parameters, before all others but the summary."""
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
