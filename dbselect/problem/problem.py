"""The problem: all that a method needs of the data; results keep it without the rows."""

import inspect
from typing import Any

from dbselect.errors import ArgumentError
from dbselect.methods.anytime import anytime_sequence
from dbselect.methods.best_within import best_within, break_even, near_best
from dbselect.methods.choice import coverage, dash, exchange, greedy, random_k, top_k
from dbselect.methods.fit import fit, projected_gram
from dbselect.methods.lasso import (
    group_lasso,
    group_lasso_path,
    lasso,
    lasso_path,
    sparse_group_lasso,
)
from dbselect.methods.sght import sght
from dbselect.methods.stepwise import backward, floating, foba, step
from dbselect.objectives.contract import Objective, is_objective
from dbselect.options.option import (
    option_lines,
    options_of,
    with_parameters,
    without_types,
)
from dbselect.results.prediction.arrived import AnytimePredictor
from dbselect.results.report.write import write_report
from dbselect.search.open import call_of, open_search
from dbselect.search.table import gram_given, gram_of_problem, open_once
from dbselect.sources.formula import design_of, is_formula
from dbselect.sources.snapshots import one_snapshot
from dbselect.spec.fields import FIRST, ProblemOptions
from dbselect.spec.spec import Spec
from dbselect.validation.cross_validate import cross_validate
from dbselect.validation.drift import drift_between, drift_from
from dbselect.validation.knockoffs import knockoffs
from dbselect.validation.robust import robust_errors
from dbselect.validation.simulate import simulate
from dbselect.validation.stability import stability
from dbselect.validation.stopped_sequence import stopped_sequence


class Problem(Spec):
    """A selection problem on a table: target, groups, costs, family and how to read the rows.

    Each method of the package is a method of it. The source is read when a method first needs it,
    and the Gram is read only once.

    Raises
    ------
    ArgumentError, ColumnError, GroupError : a field has a value that is not allowed, whatever
        the data

    Examples
    --------
    >>> import dbselect as ds
    >>> import polars as pl
    >>> table = pl.DataFrame({"a": [1, 2, 3, 4], "b": [1, -1, -1, 1], "y": [3, 4, 6, 9]})
    >>> problem = ds.Problem(table, "y", costs={"a": 5.0, "b": 1.0})
    >>> problem
    Problem(y ~ all columns, costs 1 to 5; DataFrame)
    >>> problem.anytime_sequence().steps["group"].to_list()
    [None, 'a', 'b']
    >>> problem.best_within(4.0).groups
    ['b']
    """

    def _read_formula(self) -> None:
        """Expand the formula into target, intercept, terms and groups."""
        text: Any = self.target
        is_path = isinstance(self.source, str) and not {"/", "\\"}.isdisjoint(self.source)
        if is_formula(self.source) and not (is_formula(text) or is_path):
            raise ArgumentError(
                f"source is {self.source!r}; a formula is a target: fit(table, {self.source!r})"
            )
        if not is_formula(text) or self.source is None:
            return
        if self.terms is not None:
            raise ArgumentError(f"target is {text!r}, which has terms of its own; leave out terms")
        if is_objective(self.source) or gram_given(self) is not None:
            raise ArgumentError(
                f"target is {text!r}; source is a {type(self.source).__name__}, which has its "
                "columns already, and a formula makes them of a table"
            )
        table = open_once(self)
        if text in table.schema.names:
            return
        design = design_of(text, table)
        for name, value in {
            "target": design.target, "terms": design.terms,
            "intercept": self.intercept and design.intercept,
            "groups": {name: [column for term in terms
                              for column in design.groups.get(term, [term])]
                       for name, terms in (self.groups or {}).items()} or design.groups,
        }.items():  # fmt: skip
            self._set(name, value)

    anytime_sequence = anytime_sequence
    foba = foba
    backward = backward
    floating = floating
    step = step
    group_lasso = group_lasso
    exchange = exchange
    best_within = best_within
    break_even = break_even
    near_best = near_best
    greedy = greedy
    top_k = top_k
    random_k = random_k
    dash = dash
    sght = sght
    lasso = lasso
    lasso_path = lasso_path
    group_lasso_path = group_lasso_path
    sparse_group_lasso = sparse_group_lasso
    fit = fit
    cross_validate = cross_validate
    stopped_sequence = stopped_sequence
    stability = stability
    knockoffs = knockoffs
    drift = drift_between
    coverage = coverage
    simulate = simulate
    # Functions of higher layers that results call.
    _gram_of_problem = gram_of_problem
    _projected_gram = projected_gram
    _drift_from = staticmethod(drift_from)
    _robust_errors = staticmethod(robust_errors)
    _write_report = staticmethod(write_report)

    @one_snapshot
    def objective(self) -> Objective:
        """Return the objective of the groups, for custom searches.

        Returns
        -------
        `objectives.contract.Objective`, whose candidates are the groups by number; for a family
        a GlmObjective on rows in memory, for a linear model the state of its Gram

        Warns
        -----
        SampleWarning : for a family, the rows do not fit into memory, and a sample is used
        """
        objective: Objective = open_search(self, call_of(self, "greedy", {})).state
        return objective

    @one_snapshot
    def predictor(self, *, approximate: bool = False) -> AnytimePredictor:
        """Return a predictor for any subset of groups, which names the next group to buy.

        Parameters
        ----------
        approximate : as in `dbselect.AnytimePredictor`
        """
        return AnytimePredictor(self, approximate=approximate)


for _name, _method in [*vars(Problem).items()]:
    if inspect.isfunction(_method) and _method.__module__ != __name__:
        setattr(Problem, _name, one_snapshot(_method))
setattr(Problem, "__signature__", without_types(inspect.signature(Problem)))  # noqa: B010
Problem.__doc__ = with_parameters(
    Problem.__doc__ or "", [*FIRST, *option_lines(options_of(ProblemOptions))]
)
