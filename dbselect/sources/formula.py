"""The columns of a model formula, of which formulaic reads the text, and no row.

Levels and knots take a pass over their columns, ``poly`` one more. As in R, a category has one
level fewer where the term without it is in the model already.

References: Wilkinson and Rogers (1973), Applied Statistics 22; Chambers and Hastie (1992),
Statistical Models in S, section 2.4.1.
"""

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa

from dbselect.errors import ArgumentError, ColumnError, shown, unknown
from dbselect.options.kinds import is_whole
from dbselect.record.bases import CUBIC
from dbselect.record.columns import Leaf, leaves
from dbselect.record.computed import (
    Computed,
    Expression,
    Factor,
    LevelFactor,
    NumberFactor,
    curve,
    orthonormal,
    whole_power,
)
from dbselect.record.terms import Terms
from dbselect.sources.partial.learn import learn
from dbselect.sources.read import gram_of, prepared
from dbselect.sources.request import Table

_OPERATIONS = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/"}
_FUNCTIONS = ("log", "exp", "sqrt", "abs")
#: What the natural logarithm is divided by.
_SCALES = {"log10": float(np.log(10.0)), "log2": float(np.log(2.0))}
_TREATMENT = ("contr.treatment", "Treatment")
_ALLOWED = (
    "columns, C(k, ref='b'), bs(x, 4), poly(x, 2), log, log2, log10, exp, sqrt, abs, and + - * / "
    "** in I(...)"
)
#: Levels of a category, and powers of a number.
MOST_LEVELS, MOST_POWER = 10_000, 20
#: Names of factors, and whether each lacks its reference level.
_Scope = frozenset[tuple[str, bool]]


@dataclass(frozen=True)
class FormulaDesign:
    """What a formula asks of a table."""

    target: str
    intercept: bool
    terms: Terms
    groups: dict[str, list[str]]  # term -> its columns


@dataclass(frozen=True)
class _Coded:
    """A factor with its columns."""

    name: str  # as formulas write it
    full: Factor  # of a category one column for each level
    names: list[str]
    reduced: LevelFactor | None = None  # a category without its reference level

    def columns(self, is_reduced: bool) -> tuple[Factor, list[str]]:
        """Return the columns and their names."""
        if not (is_reduced and self.reduced):
            return self.full, self.names
        return self.reduced, [f"{self.name}[T.{level}]" for level in self.reduced.kept]


#: Of a factor: the function, its column, and how many columns it makes.
_Need = tuple[str, str, int]


@dataclass(frozen=True)
class _Known:
    """The columns of a table, and what was learnt for each need."""

    every: Mapping[str, Leaf]
    learnt: Mapping[_Need, Any]

    def column(self, name: str, factor: str) -> Expression:
        """Return a column as an expression."""
        if name not in self.every:
            raise ColumnError(f"term '{factor}' names {unknown('column', name, list(self.every))}")
        return ("column", *self.every[name].path)


def is_formula(target: Any) -> bool:
    """Whether a target is a formula."""
    return isinstance(target, str) and "~" in target


def design_of(text: str, table: Table) -> FormulaDesign:
    """Return what a formula asks of a table; an error of terms and columns not allowed."""
    every = {leaf.name: leaf for leaf in leaves(table.schema)}
    targets, terms = _parsed(text, list(every))
    if [len(factors) for factors in targets.values()] != [1]:
        raise ArgumentError(f"target is {text!r}; a formula has one target, as 'y ~ a + b'")
    (target,) = targets
    asked = dict.fromkeys(name for own in (*targets.values(), *terms.values()) for name in own)
    needs = {name: _need(name, every) for name in asked if name != "1"}
    known = _Known(every, _learnt([need for need in needs.values() if need], table))
    coded = {name: _coded(name, need, known) for name, need in needs.items()}
    intercept = terms.pop("1", None) is not None
    spanned: set[_Scope] = {frozenset()} if intercept else set()
    computed: list[Computed] = []
    if target not in every:
        computed.append(Computed(target, (target,), (coded[target].full,)))
    groups: dict[str, list[str]] = {}
    for term, own in terms.items():
        each = [coded[name] for name in own]
        made = [_product(term, scope, each) for scope in _scopes(each, spanned)]
        if len(own) == 1 and own[0] in every and not each[0].reduced:
            groups[term] = own
            continue
        computed += made
        groups[term] = [name for one in made for name in one.names]
    return FormulaDesign(target, intercept, Terms(computed=tuple(computed), formula=text), groups)


def _parsed(text: str, columns: Sequence[str]) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """Return the terms on either side with their factors; ``.`` is all other columns."""
    try:
        from formulaic import Formula
    except ImportError:
        raise ArgumentError(
            f"target is {text!r}; a formula needs formulaic: pip install 'dbselect[formula]'"
        ) from None
    try:
        parsed = Formula(text, _context={"__formulaic_variables_available__": columns})
    except Exception as error:  # its errors have no base
        told = str(error).split("\n")[0].split(". ")[0]
        raise ArgumentError(f"target is {text!r}, which formulaic cannot read: {told}") from None
    sides = [getattr(parsed, "lhs", ()), getattr(parsed, "rhs", ())]
    if any(isinstance(side, tuple) for side in sides):
        sides = [(), ()]
    left, right = (
        {str(term): [factor.expr for factor in term.factors] for term in side} for side in sides
    )
    return left, right


def _scopes(factors: Sequence[_Coded], spanned: set[_Scope]) -> list[_Scope]:
    """Return which levels a term's columns have, each category with or without its constant."""
    choices = [[(one.name, True), None] if one.reduced else [(one.name, False)] for one in factors]
    every = dict.fromkeys(frozenset(filter(None, parts)) for parts in product(*choices))
    new = [scope for scope in every if scope not in spanned]
    spanned.update(new)
    return _joined(new)


def _joined(scopes: Sequence[_Scope]) -> list[_Scope]:
    """Join what lacks a level and what lacks the factor: together they have all levels."""
    found: list[_Scope] = []
    for scope in sorted(scopes, key=len):
        for other in found:
            extra = scope - other
            if len(extra) == 1 and len(other) == len(scope) - 1 and next(iter(extra))[1]:
                whole = (scope - extra) | {(next(iter(extra))[0], False)}
                found = _joined([*(one for one in found if one != other), whole])
                break
        else:
            found.append(scope)
    return found


def _product(term: str, scope: _Scope, factors: Sequence[_Coded]) -> Computed:
    is_reduced = dict(scope)
    parts = [one.columns(is_reduced[one.name]) for one in factors if one.name in is_reduced]
    names = product(*(own for _, own in reversed(parts)))
    return Computed(
        term, tuple(":".join(reversed(own)) for own in names), tuple(one for one, _ in parts)
    )


def _tree(factor: str) -> ast.expr:
    try:
        return ast.parse(factor, mode="eval").body
    except SyntaxError:
        raise _refused(factor) from None


def _call(factor: str) -> tuple[str, list[ast.expr], dict[str, ast.expr]]:
    """Return the function that a factor calls, and its arguments; no function of other factors."""
    tree = _tree(factor)
    if not isinstance(tree, ast.Call):
        return "", [], {}
    more = {str(one.arg): one.value for one in tree.keywords}
    return ast.unparse(tree.func).removeprefix("np."), tree.args, more


def _need(factor: str, every: Mapping[str, Leaf]) -> _Need | None:
    if factor in every:
        return ("C", factor, 0) if every[factor].is_text else None
    name, given, more = _call(factor)
    option = {"C": "ref", "bs": "df", "poly": "degree"}.get(name)
    if option is None:
        return None
    column = ast.unparse(given[0]) if given else ""
    if column not in every:
        raise ColumnError(f"term '{factor}' names {unknown('column', column, list(every))}")
    if name == "C":
        return name, column, 0
    size = _constants(factor, given[1:], more, option)
    least = CUBIC if name == "bs" else 1
    if len(size) != 1 or not is_whole(size[0]) or size[0] < least:
        raise ArgumentError(
            f"term '{factor}' must be {name}({column}, {option}), a whole number >= {least}"
        )
    return name, column, int(size[0])


def _constants(
    factor: str, given: Sequence[ast.expr], more: Mapping[str, ast.expr], *names: str
) -> list[Any]:
    """Return the options of a call, whether or not they are named."""
    odd = next((name for name in more if name not in names), None)
    if odd is not None:
        raise ArgumentError(f"term '{factor}' has no option {odd!r}; allowed are {_ALLOWED}")
    try:
        return [ast.literal_eval(one) for one in (*given, *more.values())]
    except ValueError:
        raise _refused(factor) from None


def _learnt(needs: Sequence[_Need], table: Table) -> dict[_Need, Any]:
    """Learn levels, knots and ranges: in one pass, unless a column is needed in two ways."""
    rounds: list[dict[str, _Need]] = []
    for need in dict.fromkeys(needs):
        free = next((one for one in rounds if need[1] not in one), None)
        if free is None:
            rounds.append(free := {})
        free[need[1]] = need
    found: dict[_Need, Any] = {}
    for asked in rounds:
        levels = [column for column, need in asked.items() if need[0] == "C"]
        for column in levels:
            type_ = table.schema.field(column).type if column in table.schema.names else None
            if type_ is not None and pa.types.is_floating(type_):
                raise ColumnError(
                    f"term 'C({column})' is of type {type_}, whose values are no levels; cast "
                    f"column '{column}' to an integer or a text"
                )
        kinds = {"bs": "spline", "poly": "poly"}
        bases = {c: (kinds[name], size) for c, (name, _, size) in asked.items() if name != "C"}
        terms = learn(table, levels, bases, MOST_LEVELS)
        found |= {asked[one.column]: one for one in (*terms.categories, *terms.bases)}
    for need in [need for need in found if need[0] == "poly"]:
        basis, column = found[need], need[1]
        request, _ = prepared(table, [column], None, "skip", terms=Terms(bases=(basis,)))
        found[need] = basis, gram_of(table, request, [])
    return found


def _coded(factor: str, need: _Need | None, known: _Known) -> _Coded:
    if need is None:
        tree = ast.Name(factor) if factor in known.every else _tree(factor)
        return _Coded(factor, NumberFactor((_expression(factor, tree, known),)), [factor])
    name, column, _ = need
    x, learnt = known.column(column, factor), known.learnt[need]
    if name == "C":
        if learnt.rest or not learnt.levels:
            count = f"more than {MOST_LEVELS:,}" if learnt.rest else "no"
            raise ArgumentError(f"term '{factor}' has {count} levels; give a column of fewer")
        return _category(factor, x[1:], learnt.levels)
    if name == "bs":
        knots = np.pad(learnt.knots, CUBIC, mode="edge")
        splines = np.eye(len(learnt.knots) + CUBIC - 1)[1:]
        columns = [curve(x, knots, CUBIC, own) for own in splines]
    else:
        basis, sums = learnt
        columns = orthonormal(x, basis, sums.mean, sums.comoment)
    return _Coded(
        factor, NumberFactor(tuple(columns)), [f"{factor}[{k + 1}]" for k in range(len(columns))]
    )


def _category(factor: str, path: Any, levels: tuple[Any, ...]) -> _Coded:
    """Return a category; its reference is the first level unless ``ref`` or a contrast names it."""
    name, given, more = _call(factor)
    options = [*given[1:], *more.values()] if name == "C" else []
    if len(options) == 1 and isinstance(options[0], ast.Call):
        contrast, given, more = _call(ast.unparse(options[0]))
        if contrast not in _TREATMENT:
            raise ArgumentError(
                f"term '{factor}' has contrasts {contrast}; allowed is contr.treatment"
            )
        references = _constants(factor, given, more, "base", "reference")
    else:
        references = _constants(factor, given[1:], more, "ref") if options else []
    reference = references[0] if references else levels[0]
    if reference not in levels:
        raise ArgumentError(
            f"term '{factor}' has the reference {shown(reference)}; it must be one of "
            f"{shown(list(levels))}"
        )
    kept = tuple(level for level in levels if level != reference)
    names = [f"{factor}[{level}]" for level in levels]
    return _Coded(factor, LevelFactor(path, levels, levels), names, LevelFactor(path, levels, kept))


def _expression(factor: str, tree: ast.AST, known: _Known) -> Expression:
    inner = partial(_expression, factor, known=known)
    text = ast.unparse(tree)
    if text in known.every:
        return known.column(text, factor)
    found: Expression = None
    match tree:
        case ast.Name():
            found = known.column(text, factor)
        case ast.Constant(value=int(value) | float(value)):
            found = float(value)
        case ast.UnaryOp(op=ast.USub()):
            found = ("*", inner(tree.operand), -1.0)
        case ast.BinOp(op=ast.Pow()):
            found = _power(factor, inner(tree.left), tree.right)
        case ast.BinOp() if type(tree.op) in _OPERATIONS:
            found = (_OPERATIONS[type(tree.op)], inner(tree.left), inner(tree.right))
        case ast.Call(args=[one], keywords=[]):
            name = _call(text)[0]
            if name in _FUNCTIONS:
                found = (name, inner(one))
            elif name in _SCALES:
                found = ("/", ("log", inner(one)), _SCALES[name])
            elif name == "I":
                found = inner(one)
    if found is None:
        raise _refused(factor)
    return found


def _power(factor: str, x: Expression, tree: ast.expr) -> Expression:
    """Return a whole power of an expression, or its square root."""
    (exponent,) = _constants(factor, [tree], {})
    if exponent == 0.5:
        return ("sqrt", x)
    if not is_whole(exponent) or not 0 < abs(exponent) <= MOST_POWER:
        raise ArgumentError(
            f"term '{factor}' has the power {exponent}; it must be 0.5 or a whole number up to "
            f"{MOST_POWER}"
        )
    found = whole_power(x, abs(int(exponent)))
    return found if exponent > 0 else ("/", 1.0, found)


def _refused(factor: str) -> ArgumentError:
    return ArgumentError(
        f"term '{factor}' cannot be computed while a table is summed; allowed are {_ALLOWED}"
    )
