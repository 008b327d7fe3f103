"""Expand a model formula into target, terms and groups; formulaic parses the text only.

Levels and knots take a pass over their columns, ``poly`` one more. As in R, a category drops its
reference level if the model already contains the term without this category.

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
#: Divisors of the natural logarithm for other bases.
_SCALES = {"log10": float(np.log(10.0)), "log2": float(np.log(2.0))}
_TREATMENT = ("contr.treatment", "Treatment")
_ALLOWED = (
    "columns, C(k, ref='b'), bs(x, 4), poly(x, 2), log, log2, log10, exp, sqrt, abs, and + - * / "
    "** in I(...)"
)
#: Levels of a category, and powers of a number.
MOST_LEVELS, MOST_POWER = 10_000, 20
#: Names of factors, and whether each omits its reference level.
_Scope = frozenset[tuple[str, bool]]


@dataclass(frozen=True)
class FormulaDesign:
    """A formula expanded for a table: target, intercept, terms and groups."""

    target: str
    intercept: bool
    terms: Terms
    groups: dict[str, list[str]]  # term -> its columns


@dataclass(frozen=True)
class _Coded:
    """A factor with its columns."""

    name: str  # as written in the formula
    full: Factor  # a category has one column per level
    names: list[str]
    reduced: LevelFactor | None = None  # a category without its reference level

    def columns(self, is_reduced: bool) -> tuple[Factor, list[str]]:
        """Return the columns and their names."""
        if not (is_reduced and self.reduced):
            return self.full, self.names
        return self.reduced, [f"{self.name}[T.{level}]" for level in self.reduced.kept]


#: Function of a factor, its column, and the number of columns it makes.
_Need = tuple[str, str, int]


@dataclass(frozen=True)
class _TableColumns:
    """The columns of a table, and the levels, knots or ranges learnt for each need."""

    leaves: Mapping[str, Leaf]
    learnt: Mapping[_Need, Any]

    def column(self, name: str, factor: str) -> Expression:
        """Return a column as an expression."""
        if name not in self.leaves:
            raise ColumnError(f"term '{factor}' names {unknown('column', name, list(self.leaves))}")
        return ("column", *self.leaves[name].path)


def is_formula(target: Any) -> bool:
    """Whether a target is a formula."""
    return isinstance(target, str) and "~" in target


def design_of(text: str, table: Table) -> FormulaDesign:
    """Expand a formula for a table; raise an error for unsupported terms and unknown columns."""
    available = {leaf.name: leaf for leaf in leaves(table.schema)}
    targets, terms = _parsed(text, list(available))
    if [len(factors) for factors in targets.values()] != [1]:
        raise ArgumentError(f"target is {text!r}; a formula has one target, as 'y ~ a + b'")
    (target,) = targets
    names = dict.fromkeys(f for side in (targets, terms) for term in side.values() for f in term)
    needs = {name: _need(name, available) for name in names if name != "1"}
    columns = _TableColumns(available, _learnt([need for need in needs.values() if need], table))
    coded = {name: _coded(name, need, columns) for name, need in needs.items()}
    intercept = terms.pop("1", None) is not None
    spanned: set[_Scope] = {frozenset()} if intercept else set()
    computed: list[Computed] = []
    if target not in available:
        computed.append(Computed(target, (target,), (coded[target].full,)))
    groups: dict[str, list[str]] = {}
    for term, parts in terms.items():
        factors = [coded[name] for name in parts]
        products = [_product(term, scope, factors) for scope in _scopes(factors, spanned)]
        if len(parts) == 1 and parts[0] in available and not factors[0].reduced:
            groups[term] = parts
            continue
        computed += products
        groups[term] = [column for product in products for column in product.names]
    return FormulaDesign(target, intercept, Terms(computed=tuple(computed), formula=text), groups)


def _parsed(text: str, columns: Sequence[str]) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """Parse the terms of both sides into their factors; ``.`` means all other columns."""
    try:
        from formulaic import Formula
    except ImportError:
        raise ArgumentError(
            f"target is {text!r}; a formula needs formulaic: pip install 'dbselect[formula]'"
        ) from None
    try:
        parsed = Formula(text, _context={"__formulaic_variables_available__": columns})
    except Exception as error:  # formulaic's errors have no common base class
        message = str(error).split("\n")[0].split(". ")[0]
        raise ArgumentError(f"target is {text!r}, which formulaic cannot read: {message}") from None
    sides = [getattr(parsed, "lhs", ()), getattr(parsed, "rhs", ())]
    if any(isinstance(side, tuple) for side in sides):
        sides = [(), ()]
    left, right = (
        {str(term): [factor.expr for factor in term.factors] for term in side} for side in sides
    )
    return left, right


def _scopes(factors: Sequence[_Coded], spanned: set[_Scope]) -> list[_Scope]:
    """Return the new scopes of a term: a category is reduced or absent, as the constant is."""
    choices = [[(f.name, True), None] if f.reduced else [(f.name, False)] for f in factors]
    scopes = dict.fromkeys(frozenset(filter(None, parts)) for parts in product(*choices))
    new = [scope for scope in scopes if scope not in spanned]
    spanned.update(new)
    return _joined(new)


def _joined(scopes: Sequence[_Scope]) -> list[_Scope]:
    """Join a scope with a reduced factor and one without it: together they span all levels."""
    joined: list[_Scope] = []
    for scope in sorted(scopes, key=len):
        for other in joined:
            extra = scope - other
            if len(extra) == 1 and len(other) == len(scope) - 1 and next(iter(extra))[1]:
                whole = (scope - extra) | {(next(iter(extra))[0], False)}
                joined = _joined([*(kept for kept in joined if kept != other), whole])
                break
        else:
            joined.append(scope)
    return joined


def _product(term: str, scope: _Scope, factors: Sequence[_Coded]) -> Computed:
    is_reduced = dict(scope)
    coded = [factor for factor in factors if factor.name in is_reduced]
    parts = [factor.columns(is_reduced[factor.name]) for factor in coded]
    columns = product(*(names for _, names in reversed(parts)))
    names = tuple(":".join(reversed(parts_of_name)) for parts_of_name in columns)
    return Computed(term, names, tuple(factor for factor, _ in parts))


def _tree(factor: str) -> ast.expr:
    try:
        return ast.parse(factor, mode="eval").body
    except SyntaxError:
        raise _refused(factor) from None


def _call(factor: str) -> tuple[str, list[ast.expr], dict[str, ast.expr]]:
    """Return the called function and its arguments; an empty name if the factor is no call."""
    tree = _tree(factor)
    if not isinstance(tree, ast.Call):
        return "", [], {}
    keywords = {str(keyword.arg): keyword.value for keyword in tree.keywords}
    return ast.unparse(tree.func).removeprefix("np."), tree.args, keywords


def _need(factor: str, available: Mapping[str, Leaf]) -> _Need | None:
    if factor in available:
        return ("C", factor, 0) if available[factor].is_text else None
    name, arguments, keywords = _call(factor)
    option = {"C": "ref", "bs": "df", "poly": "degree"}.get(name)
    if option is None:
        return None
    column = ast.unparse(arguments[0]) if arguments else ""
    if column not in available:
        raise ColumnError(f"term '{factor}' names {unknown('column', column, list(available))}")
    if name == "C":
        return name, column, 0
    size = _constants(factor, arguments[1:], keywords, option)
    least = CUBIC if name == "bs" else 1
    if len(size) != 1 or not is_whole(size[0]) or size[0] < least:
        raise ArgumentError(
            f"term '{factor}' must be {name}({column}, {option}), a whole number >= {least}"
        )
    return name, column, int(size[0])


def _constants(
    factor: str, arguments: Sequence[ast.expr], keywords: Mapping[str, ast.expr], *names: str
) -> list[Any]:
    """Return the options of a call, positional or by keyword."""
    odd = next((name for name in keywords if name not in names), None)
    if odd is not None:
        raise ArgumentError(f"term '{factor}' has no option {odd!r}; allowed are {_ALLOWED}")
    try:
        return [ast.literal_eval(argument) for argument in (*arguments, *keywords.values())]
    except ValueError:
        raise _refused(factor) from None


def _learnt(needs: Sequence[_Need], table: Table) -> dict[_Need, Any]:
    """Learn levels, knots and ranges: in one pass, unless a column has two needs."""
    rounds: list[dict[str, _Need]] = []
    for need in dict.fromkeys(needs):
        free = next((earlier for earlier in rounds if need[1] not in earlier), None)
        if free is None:
            rounds.append(free := {})
        free[need[1]] = need
    learnt: dict[_Need, Any] = {}
    for round_ in rounds:
        levels = [column for column, need in round_.items() if need[0] == "C"]
        for column in levels:
            type_ = table.schema.field(column).type if column in table.schema.names else None
            if type_ is not None and pa.types.is_floating(type_):
                raise ColumnError(
                    f"term 'C({column})' is of type {type_}, whose values are no levels; cast "
                    f"column '{column}' to an integer or a text"
                )
        kinds = {"bs": "spline", "poly": "poly"}
        bases = {c: (kinds[name], size) for c, (name, _, size) in round_.items() if name != "C"}
        terms = learn(table, levels, bases, MOST_LEVELS)
        learnt |= {round_[part.column]: part for part in (*terms.categories, *terms.bases)}
    for need in [need for need in learnt if need[0] == "poly"]:
        basis, column = learnt[need], need[1]
        request, _ = prepared(table, [column], None, "skip", terms=Terms(bases=(basis,)))
        learnt[need] = basis, gram_of(table, request, [])
    return learnt


def _coded(factor: str, need: _Need | None, table: _TableColumns) -> _Coded:
    if need is None:
        tree = ast.Name(factor) if factor in table.leaves else _tree(factor)
        return _Coded(factor, NumberFactor((_expression(factor, tree, table),)), [factor])
    name, column, _ = need
    x, learnt = table.column(column, factor), table.learnt[need]
    if name == "C":
        if learnt.rest or not learnt.levels:
            count = f"more than {MOST_LEVELS:,}" if learnt.rest else "no"
            raise ArgumentError(f"term '{factor}' has {count} levels; give a column of fewer")
        return _category(factor, x[1:], learnt.levels)
    if name == "bs":
        knots = np.pad(learnt.knots, CUBIC, mode="edge")
        splines = np.eye(len(learnt.knots) + CUBIC - 1)[1:]
        columns = [curve(x, knots, CUBIC, spline) for spline in splines]
    else:
        basis, sums = learnt
        columns = orthonormal(x, basis, sums.mean, sums.comoment)
    return _Coded(
        factor, NumberFactor(tuple(columns)), [f"{factor}[{k + 1}]" for k in range(len(columns))]
    )


def _category(factor: str, path: Any, levels: tuple[Any, ...]) -> _Coded:
    """Code a category; its reference is the first level unless ``ref`` or a contrast sets it."""
    name, arguments, keywords = _call(factor)
    options = [*arguments[1:], *keywords.values()] if name == "C" else []
    if len(options) == 1 and isinstance(options[0], ast.Call):
        contrast, arguments, keywords = _call(ast.unparse(options[0]))
        if contrast not in _TREATMENT:
            raise ArgumentError(
                f"term '{factor}' has contrasts {contrast}; allowed is contr.treatment"
            )
        references = _constants(factor, arguments, keywords, "base", "reference")
    else:
        references = _constants(factor, arguments[1:], keywords, "ref") if options else []
    reference = references[0] if references else levels[0]
    if reference not in levels:
        raise ArgumentError(
            f"term '{factor}' has the reference {shown(reference)}; it must be one of "
            f"{shown(list(levels))}"
        )
    kept = tuple(level for level in levels if level != reference)
    names = [f"{factor}[{level}]" for level in levels]
    return _Coded(factor, LevelFactor(path, levels, levels), names, LevelFactor(path, levels, kept))


def _expression(factor: str, tree: ast.AST, table: _TableColumns) -> Expression:
    inner = partial(_expression, factor, table=table)
    text = ast.unparse(tree)
    if text in table.leaves:
        return table.column(text, factor)
    expression: Expression = None
    match tree:
        case ast.Name():
            expression = table.column(text, factor)
        case ast.Constant(value=int(value) | float(value)):
            expression = float(value)
        case ast.UnaryOp(op=ast.USub()):
            expression = ("*", inner(tree.operand), -1.0)
        case ast.BinOp(op=ast.Pow()):
            expression = _power(factor, inner(tree.left), tree.right)
        case ast.BinOp() if type(tree.op) in _OPERATIONS:
            expression = (_OPERATIONS[type(tree.op)], inner(tree.left), inner(tree.right))
        case ast.Call(args=[argument], keywords=[]):
            name = _call(text)[0]
            if name in _FUNCTIONS:
                expression = (name, inner(argument))
            elif name in _SCALES:
                expression = ("/", ("log", inner(argument)), _SCALES[name])
            elif name == "I":
                expression = inner(argument)
    if expression is None:
        raise _refused(factor)
    return expression


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
    power = whole_power(x, abs(int(exponent)))
    return power if exponent > 0 else ("/", 1.0, power)


def _refused(factor: str) -> ArgumentError:
    return ArgumentError(
        f"term '{factor}' cannot be computed while a table is summed; allowed are {_ALLOWED}"
    )
