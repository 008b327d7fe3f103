"""Table of the methods of a problem: options, required parameters and results."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from dbselect.options.kinds import AT_LEAST_ZERO, COLUMNS
from dbselect.options.option import REQUIRED, Option, options_of
from dbselect.spec import options
from dbselect.spec.fields import ProblemOptions


@dataclass(frozen=True)
class Method:
    """A method of a problem."""

    about: str  # what it does, as the command line lists it
    options: type  # TypedDict of its options
    # ``"sequence"``, ``"model"``, ``"proof"``, ``"penalised"``, ``"fit"``, ``"selection"``,
    # ``"sets"``, ``"table"`` or ``"other"``: the kind of its result, which decides its form in SQL
    returns: str
    # its parameters before the options
    first: Mapping[str, Option] = field(default_factory=dict)
    in_sql: bool = True  # whether SQL and Polars have it, for Gram records
    # fields of a problem on a record that the result depends on; None: all of them
    fields: tuple[str, ...] | None = None

    @property
    def known(self) -> dict[str, Option]:
        """All parameters of the method, by name."""
        return {**self.first, **options_of(self.options)}

    @property
    def in_engines(self) -> dict[str, Option]:
        """Parameters that it takes for a Gram record."""
        return {name: option for name, option in self.known.items() if option.in_engines}

    @property
    def fields_in_engines(self) -> dict[str, Option]:
        """Problem fields that it takes for a Gram record."""
        return {
            name: option
            for name, option in options_of(ProblemOptions).items()
            if option.in_engines and (self.fields is None or name in self.fields)
        }


_BUDGET = {"budget": Option(REQUIRED, AT_LEAST_ZERO, "limit on the summed cost, >= 0")}
_COLUMNS: dict[str, Any] = {
    "columns": Option(None, COLUMNS, "names and globs; default: all columns of the groups")
}

_TESTED: dict[str, Any] = {
    "tested": Option(None, COLUMNS, "columns to test; default: all of the model")
}

METHODS: dict[str, Method] = {
    "anytime_sequence": Method(
        "order groups of columns by how much prediction each buys for its cost",
        options.AnytimeOptions,
        "sequence",
    ),
    "foba": Method(
        "add groups greedily, and give back those that later ones made dispensable",
        options.FobaOptions,
        "sequence",
    ),
    "backward": Method(
        "start from all groups and remove the least useful one, again and again",
        options.BackwardOptions,
        "sequence",
    ),
    "floating": Method(
        "add groups greedily, and go back to fewer where these explain more than ever for the cost",
        options.FloatingOptions,
        "sequence",
    ),
    "step": Method(
        "add or remove the group that lowers AIC most, until none does",
        options.StepOptions,
        "sequence",
    ),
    "group_lasso": Method(
        "order groups by the penalty of the group lasso at which each enters",
        options.GroupLassoOptions,
        "sequence",
        in_sql=False,
    ),
    "exchange": Method(
        "choose k groups greedily, then exchange one for another until none of that helps",
        options.ExchangeOptions,
        "model",
    ),
    "dash": Method(
        "choose k groups in few adaptive rounds, random sets of good ones at a time",
        options.DashOptions,
        "model",
    ),
    "greedy": Method(
        "choose k groups, the one of the largest gain each time",
        options.GreedyOptions,
        "model",
        in_sql=False,
    ),
    "top_k": Method(
        "choose the k groups that explain most alone",
        options.BaselineOptions,
        "model",
        in_sql=False,
    ),
    "random_k": Method(
        "choose k groups at random",
        options.BaselineOptions,
        "model",
        in_sql=False,
    ),
    "near_best": Method(
        "list the sets of groups that explain nearly as much as the best for a budget",
        options.NearBestOptions,
        "sets",
        _BUDGET,
    ),
    "sght": Method(
        "fit a model on few columns in few groups, by hard thresholding",
        options.SghtOptions,
        "model",
    ),
    "best_within": Method(
        "fit the groups that explain most for a budget, with proof",
        options.BestWithinOptions,
        "proof",
        _BUDGET,
    ),
    "break_even": Method(
        "return the highest price at which each group is still bought, for a budget or a worth",
        options.BreakEvenOptions,
        "table",
        {"budget": Option(None, AT_LEAST_ZERO.or_none(), "limit on the summed cost, >= 0")},
    ),
    "lasso": Method(
        "fit the lasso, or the elastic net, at one penalty",
        options.LassoOptions,
        "penalised",
    ),
    "sparse_group_lasso": Method(
        "fit the sparse group lasso at one penalty",
        options.SparseGroupLassoOptions,
        "penalised",
    ),
    "fit": Method(
        "fit a model on some columns, all of them",
        options.FitOptions,
        "fit",
        _COLUMNS,
    ),
    "knockoffs": Method(
        "select groups with a bound on the expected share of false ones",
        options.KnockoffOptions,
        "selection",
    ),
    "lasso_path": Method(
        "fit the lasso, or the elastic net, for falling penalties",
        options.LassoPathOptions,
        "other",
        in_sql=False,
    ),
    "group_lasso_path": Method(
        "fit the group lasso for falling penalties",
        options.GroupLassoPathOptions,
        "other",
        in_sql=False,
    ),
    "cross_validate": Method(
        "score a method on rows held out",
        options.CrossValidateOptions,
        "other",
        in_sql=False,
    ),
    "stability": Method(
        "count how often a method chooses each group of rows drawn anew",
        options.StabilityOptions,
        "other",
        in_sql=False,
    ),
    "stopped_sequence": Method(
        "order groups, and end where rows held out are predicted no better",
        options.StoppedOptions,
        "other",
        in_sql=False,
    ),
}

#: Problem fields that least squares on named columns depends on.
_LEAST_SQUARES = ("intercept",)
#: Further functions of a Gram record in SQL and Polars: least squares on named columns.
OF_FITS: dict[str, Method] = {
    "summary": Method(
        "return the coefficients of `fit` with standard errors, tests and intervals",
        options.SummaryOptions,
        "summary",
        _COLUMNS,
        fields=_LEAST_SQUARES,
    ),
    "vif": Method(
        "return by how much dependence on the other columns inflates the variance of a coefficient",
        options.NoOptions,
        "vif",
        _COLUMNS,
        fields=_LEAST_SQUARES,
    ),
    "partial_correlations": Method(
        "return the correlation of each column with the target, given the others",
        options.NoOptions,
        "partial_correlations",
        _COLUMNS,
        fields=_LEAST_SQUARES,
    ),
    "condition_number": Method(
        "return the condition number of the columns' correlations",
        options.NoOptions,
        "condition_number",
        _COLUMNS,
        fields=_LEAST_SQUARES,
    ),
    "f_test": Method(
        "return the F test that the coefficients of some columns are all 0",
        options.NoOptions,
        "f_test",
        _TESTED | _COLUMNS,
        fields=_LEAST_SQUARES,
    ),
}
#: All methods and functions of a Gram record.
OF_RECORDS = {name: method for name, method in METHODS.items() if method.in_sql} | OF_FITS


def places_of(method: Method) -> list[str]:
    """Return the positional parameters of a method of a record, after the target."""
    required = [name for name, option in method.known.items() if option.default is REQUIRED]
    return list(dict.fromkeys([*method.first, *required]))


#: Methods whose result, a sequence or a model, can be evaluated on held-out rows.
JUDGED = [
    name for name, m in METHODS.items() if m.returns not in ("selection", "sets", "table", "other")
]
#: The methods of `JUDGED` that choose among groups.
CHOOSING = [name for name in JUDGED if name not in ("fit", "group_lasso")]
