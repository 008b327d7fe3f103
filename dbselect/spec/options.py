"""Table of the options of every method; a test compares it with native/src/methods/options.rs."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal, Required, TypedDict

from dbselect.options.kinds import (
    ALPHA,
    ANYTHING,
    BUDGET,
    CALLBACK,
    COLUMN,
    COLUMNS,
    COUNT,
    EXECUTOR,
    FACTORS,
    FALLING,
    FLAG,
    FRACTION,
    GROUP_NAMES,
    LIMIT_OF_QUERIES,
    LIMIT_OF_TIME,
    METRICS,
    MODELS,
    NOT_NEGATIVE,
    PAYOFF,
    POSITIVE,
    SECONDS,
    SEED,
    SHARE,
    SHORTLIST,
    SIGNS,
    SPLITS,
    SPLITS_BY_ANOTHER_NAME,
    THRESHOLD,
    VARIANCE,
    one_of,
    whole,
)
from dbselect.options.names import (
    BackwardName,
    ChoiceName,
    CriterionName,
    DirectionName,
    DrawName,
    ForwardName,
    KnockoffName,
    OrderingName,
    PathCriterionName,
    Per,
    RuleName,
    ShareName,
    StartName,
    UnmatchedName,
    VariantName,
)
from dbselect.options.option import REQUIRED, Option

if TYPE_CHECKING:
    from dbselect.objectives.contract import Objective
    from dbselect.sources.progress import Progress

Callback = Annotated[
    "Callable[[Progress], object] | None",
    Option(None, CALLBACK, "is called with a `Progress` after every turn; an exception that it "
           "raises ends the call", in_engines=False),
]  # fmt: skip
Budget = Annotated[
    float | None,
    Option(None, BUDGET, "limit on the summed cost: only groups that still fit are candidates"),
]
MaxSteps = Annotated[int | None, Option(None, COUNT, "limit on additions and removals together")]
MaxGroups = Annotated[int | None, Option(None, COUNT, "limit on the number of groups")]
TimeLimit = Annotated[
    float,
    Option(10.0, SECONDS, "seconds after which the best set found so far is returned"),
]
Share = Annotated[
    ShareName | None,
    Option(None, one_of(ShareName), "of a list of records: what is maximised of their explained "
           "shares, the ``\"worst\"`` or the ``\"mean\"``; default: they are one record of all "
           "rows", in_engines=False),
]  # fmt: skip
Signs = Annotated[
    Mapping[str, str] | None,
    Option(None, SIGNS, 'column or glob -> ``"+"`` for a coefficient >= 0, ``"-"`` for <= 0'),
]
ForwardRule = Annotated[
    ForwardName,
    Option("fr", one_of(ForwardName), "what a forward step maximises per unit of cost, as in "
           "`anytime_sequence`, without ``\"doubling\"``"),
]  # fmt: skip
Backward = Annotated[
    BackwardName,
    Option("loss", one_of(BackwardName), "which group is the least useful: by ``\"loss\"``, the "
           "exact loss per cost, or by ``\"coefficient\"``, the length of its coefficients on "
           "unit-variance columns"),
]  # fmt: skip
HowMany = Annotated[int, Option(REQUIRED, COUNT, "number of groups to choose, >= 1")]
Diversity = Annotated[
    "Objective | None",
    Option(None, ANYTHING, "objective over the same candidates that is added to the gain, as "
           "`dbselect.objectives.coverage`", in_engines=False),
]  # fmt: skip
MaxIter = Annotated[
    int | None,
    Option(None, COUNT, "limit on the Newton steps of a fit of another family; default 25",
           in_engines=False),
]  # fmt: skip
Tol = Annotated[
    float | None,
    Option(None, SHARE, "a fit of another family ends when its next step explains less than this "
           "share of the null deviance; default 1e-8 for sequences, 1e-10 for `fit`",
           in_engines=False),
]  # fmt: skip


class QueryOptions(TypedDict, total=False):
    """Options of searches on objectives that are slow to evaluate."""

    executor: Annotated[
        Any,
        Option(None, EXECUTOR, "a `concurrent.futures.Executor` that asks the sets of a batch "
               "side by side, of `dbselect.objectives.Score`", in_engines=False),
    ]  # fmt: skip
    max_queries: Annotated[
        int | None,
        Option(None, LIMIT_OF_QUERIES, "limit on the new questions to a score; the steps so far "
               "are returned", in_engines=False),
    ]  # fmt: skip


class LimitedOptions(QueryOptions, total=False):
    """`QueryOptions` with a time limit."""

    time_limit: Annotated[
        float | None,
        Option(None, LIMIT_OF_TIME, "seconds after which a search of a score ends with the steps "
               "so far", in_engines=False),
    ]  # fmt: skip


class LedOptions(LimitedOptions, total=False):
    """`LimitedOptions` with the shortlist of searches for the largest gain."""

    shortlist: Annotated[
        float | None,
        Option(None, SHORTLIST, "share of the largest gain per cost in a linear model, on splines, "
               "that a group must reach for a score to be asked about it; default: all are asked",
               in_engines=False),
    ]  # fmt: skip


Lazy = Annotated[
    bool | None,
    Option(None, FLAG, "whether a score is asked about a group again only if its last gain may "
           "win, which is exact where gains fall as groups are added; default: all are asked",
           in_engines=False),
]  # fmt: skip


class AnytimeOptions(LedOptions, total=False):
    """Options of `anytime_sequence`."""

    rule: Annotated[
        RuleName,
        Option("fr", one_of(RuleName), "what a step maximises per unit of cost: ``\"fr\"``, the "
               "exact gain; ``\"omp\"``, the group-whitened gradient; ``\"omp-unwhitened\"``, the "
               "gradient as it is; ``\"omp-single\"``, its largest entry; ``\"doubling\"``, the "
               "exact gain among groups that at most double the cost. With another family "
               "``\"fr\"`` refits with every group, ``\"score\"`` takes the score test, which is "
               "nearly as good and much cheaper, and ``\"omp-information\"`` the gradient whitened "
               "by the information; of a Gram these two are ``\"fr\"`` and ``\"omp\"``"),
    ]  # fmt: skip
    budget: Budget
    max_groups: MaxGroups
    c_min: Annotated[
        float | None,
        Option(None, POSITIVE, "rule ``\"doubling\"`` only: the largest cost of the first group; "
               "default: the cheapest cost there is"),
    ]  # fmt: skip
    resume: Annotated[
        Any,
        Option(None, ANYTHING, "the result of an earlier search: with `gram` lazy, of the same "
               "table, whose groups are taken first; of a score, whose answers are taken over",
               in_engines=False),
    ]  # fmt: skip
    screen: Annotated[
        int | None,
        Option(None, COUNT, "with `gram` lazy, the number of columns to search among, those "
               "of the largest correlations with the target; not exact, as ``screened`` of the "
               "result says", in_engines=False),
    ]  # fmt: skip
    lazy: Lazy
    max_iter: MaxIter
    tol: Tol
    share: Share
    callback: Callback


class FobaOptions(LedOptions, total=False):
    """Options of `foba`."""

    rule: ForwardRule
    epsilon: Annotated[
        float,
        Option(0.0, NOT_NEGATIVE, "share of the target's variance, or of the null deviance, that "
               "a group must gain"),
    ]  # fmt: skip
    nu: Annotated[
        float,
        Option(0.5, SHARE, "share of the gain of the last step to the present size that a removal "
               "may lose"),
    ]  # fmt: skip
    backward: Backward
    max_steps: MaxSteps
    budget: Budget
    callback: Callback


class BackwardOptions(LimitedOptions, total=False):
    """Options of `backward`."""

    backward: Backward
    max_steps: Annotated[int | None, Option(None, COUNT, "limit on the removals")]
    budget: Annotated[
        float | None,
        Option(None, BUDGET, "groups are removed until those held fit the budget"),
    ]
    callback: Callback


class FloatingOptions(LedOptions, total=False):
    """Options of `floating`."""

    rule: ForwardRule
    max_groups: MaxGroups
    max_steps: MaxSteps
    budget: Budget
    callback: Callback


class StepOptions(TypedDict, total=False):
    """Options of `step`."""

    criterion: Annotated[
        CriterionName, Option("aic", one_of(CriterionName), '``"aic"`` or ``"bic"``')
    ]
    penalty: Annotated[
        float | None,
        Option(None, NOT_NEGATIVE, "price of a parameter, in place of the criterion's 2 or log n: "
               "R's ``k``"),
    ]  # fmt: skip
    direction: Annotated[
        DirectionName,
        Option("both", one_of(DirectionName), "``\"both\"``, additions only (``\"forward\"``) or "
               "removals only (``\"backward\"``)"),
    ]  # fmt: skip
    start: Annotated[
        Sequence[str] | None,
        Option(None, GROUP_NAMES, "groups to begin with; default: none, or all where the direction "
               "is backward"),
    ]  # fmt: skip
    max_steps: Annotated[int | None, Option(None, COUNT, "limit on the moves after the start")]
    budget: Budget
    callback: Callback


class BreakEvenOptions(TypedDict, total=False):
    """Options of `break_even`."""

    worth: Annotated[
        float | None,
        Option(None, POSITIVE.or_none(), "instead of a budget: what explaining all of the "
               "variance is worth, > 0, in the unit of cost"),
    ]  # fmt: skip
    per: Annotated[
        Per,
        Option("explained", one_of(Per), "what `worth` is of: all of the variance, or "
               "``\"rmse\"``, a unit of the root mean squared error"),
    ]  # fmt: skip
    time_limit: TimeLimit


class BestWithinOptions(QueryOptions, total=False):
    """Options of `best_within`."""

    time_limit: TimeLimit
    share: Annotated[
        ShareName | None,
        Option(None, one_of(ShareName), "of a list of records: what is maximised of their "
               "explained shares, the ``\"worst\"`` or the ``\"mean\"``; default: the worst"),
    ]  # fmt: skip
    callback: Callback


class NearBestOptions(TypedDict, total=False):
    """Options of `near_best`."""

    within: Annotated[
        float,
        Option(0.01, FRACTION, "sets explain less than the best by at most this share of it"),
    ]
    limit: Annotated[int, Option(1000, COUNT, "most sets to return, the best ones")]
    watch: Annotated[
        Sequence[str],
        Option((), COLUMNS, "names and globs of columns; for each the correlation of every "
               "prediction with it is returned"),
    ]  # fmt: skip
    time_limit: Annotated[
        float,
        Option(10.0, SECONDS, "seconds after which the sets found so far are returned"),
    ]
    callback: Callback


class BaselineOptions(LedOptions, total=False):
    """Options of `top_k` and `random_k`."""

    k: Required[HowMany]
    budget: Budget
    diversity: Diversity


class GreedyOptions(BaselineOptions, total=False):
    """Options of `greedy`."""

    lazy: Lazy
    sample: Annotated[
        int | None,
        Option(None, COUNT, "groups of a score that each step draws and takes the best of, as n/k "
               "log(1/epsilon) of stochastic greedy; default: all", in_engines=False),
    ]  # fmt: skip
    callback: Callback


class ExchangeOptions(LedOptions, total=False):
    """Options of `exchange`."""

    k: Required[HowMany]
    start: Annotated[
        Sequence[str],
        Option((), GROUP_NAMES, "groups to start from; default: those that greedy steps choose"),
    ]
    budget: Budget
    diversity: Diversity
    callback: Callback


class DashOptions(LimitedOptions, total=False):
    """Options of `dash`."""

    k: Required[HowMany]
    rounds: Annotated[
        int | None,
        Option(None, COUNT, "number of random sets that make up the k groups; default: log2 of the "
               "number of groups, at most k / 4"),
    ]  # fmt: skip
    samples: Annotated[int, Option(5, COUNT, "random sets that are averaged in a query")]
    epsilon: Annotated[
        float, Option(0.1, SHARE, "slack of the thresholds, and ratio of the grids of guesses")
    ]
    opt: Annotated[
        float | None,
        Option(None, POSITIVE, "value of the best k groups; default: a grid of guesses"),
    ]
    alpha: Annotated[
        float | None,
        Option(None, ALPHA, "how near to submodular the objective is; default: a grid of guesses"),
    ]
    literal: Annotated[
        bool,
        Option(False, FLAG, "the paper's algorithm as it is printed, without what dbselect adds; "
               "it may choose fewer than k", in_engines=False),
    ]  # fmt: skip
    diversity: Diversity
    callback: Callback


class DescentOptions(TypedDict, total=False):
    """Options of every descent of SGHT."""

    variant: Annotated[
        VariantName,
        Option("ista", one_of(VariantName), "``\"ista\"`` (Barzilai-Borwein, sufficient decrease), "
               "``\"ista-l\"`` (Barzilai-Borwein, Lipschitz) or ``\"fista\"`` (accelerated)"),
    ]  # fmt: skip
    start: Annotated[
        StartName | Mapping[str, float],
        Option("ridge", ANYTHING, "``\"ridge\"``, projections of ridge solutions; ``\"zero\"``; or "
               "coefficients of columns by name", in_engines=False),
    ]  # fmt: skip
    refit: Annotated[
        bool, Option(True, FLAG, "whether the columns kept are fitted again without the descent")
    ]
    polish: Annotated[
        bool,
        Option(True, FLAG, "whether exchanges of columns follow the descent of a linear model, "
               "where they are cheap"),
    ]  # fmt: skip
    tol: Annotated[
        float,
        Option(1e-8, NOT_NEGATIVE, "the descent ends when a step changes the objective by less "
               "than this share"),
    ]  # fmt: skip
    max_iter: Annotated[int, Option(500, COUNT, "limit on the steps of the descent")]


class SghtOptions(DescentOptions, total=False):
    """Options of `sght`."""

    max_columns: Required[
        Annotated[int, Option(REQUIRED, COUNT, "s1, the most columns to keep, >= 1")]
    ]
    max_groups: Required[
        Annotated[int, Option(REQUIRED, COUNT, "s2, the most groups to keep, >= 1")]
    ]


class PathOptions(TypedDict, total=False):
    """Options of every path of a penalty."""

    lambda_min_ratio: Annotated[
        float, Option(1e-3, SHARE, "the last penalty of the grid as a share of the first")
    ]
    penalty_factors: Annotated[
        Mapping[str, float] | None,
        Option(None, FACTORS, "column, glob or group -> factor >= 0 of its penalty; 0 for what is "
               "not penalised; default 1 each"),
    ]  # fmt: skip
    adaptive: Annotated[
        float | None,
        Option(None, POSITIVE, "power of the adaptive lasso: penalties are divided by this power "
               "of the least-squares coefficients. Columns that depend on others never enter"),
    ]  # fmt: skip


_Penalties = Annotated[
    Iterable[float] | None,
    Option(None, FALLING, "penalties, falling, > 0; default: `n_lambda` of a geometric grid from "
           "the least one on at which every penalised coefficient is 0"),
]  # fmt: skip
_LassoRatio = Annotated[
    float, Option(1.0, FRACTION, "1 for the lasso, less for the elastic net, > 0")
]


class LassoPathOptions(PathOptions, total=False):
    """Options of `lasso_path`."""

    signs: Signs
    penalties: _Penalties
    n_lambda: Annotated[int, Option(100, whole(2), "number of penalties of the grid")]
    l1_ratio: _LassoRatio


class GroupLassoPathOptions(PathOptions, total=False):
    """Options of `group_lasso_path`."""

    penalties: _Penalties
    n_lambda: Annotated[int, Option(50, whole(2), "number of penalties of the grid")]
    l1_ratio: Annotated[
        float,
        Option(0.0, FRACTION, "0 for the group lasso to 1 for the lasso; between them the sparse "
               "group lasso, which leaves columns out of the groups that it takes"),
    ]  # fmt: skip


class GroupLassoOptions(GroupLassoPathOptions, total=False):
    """Options of `group_lasso`."""

    budget: Budget


class PenaltyOptions(PathOptions, total=False):
    """Options of every fit at one penalty of a path."""

    penalty: Annotated[
        float | None,
        Option(None, POSITIVE, "the penalty; default: that of a grid which `criterion` prefers"),
    ]
    criterion: Annotated[
        PathCriterionName,
        Option("bic", one_of(PathCriterionName), "information criterion that chooses the penalty"),
    ]
    n_lambda: Annotated[int, Option(100, whole(2), "number of penalties of the grid")]


class LassoOptions(PenaltyOptions, total=False):
    """Options of `lasso`."""

    l1_ratio: _LassoRatio
    signs: Signs


class SparseGroupLassoOptions(PenaltyOptions, total=False):
    """Options of `sparse_group_lasso`."""

    l1_ratio: Annotated[float, Option(0.95, FRACTION, "0 for the group lasso to 1 for the lasso")]


class Constraints(TypedDict, total=False):
    """Constraints of the coefficients of `fit`."""

    signs: Signs
    uncorrelated: Annotated[
        Sequence[str],
        Option((), COLUMNS, "names and globs of columns that the prediction has no correlation "
               "with; without `columns` and `groups` they are not predictors"),
    ]  # fmt: skip


class FitOptions(Constraints, total=False):
    """Options of `fit`."""

    models: Annotated[
        Mapping[str, Sequence[str]] | None,
        Option(None, MODELS, "name -> columns, in place of `columns`: a dict of models comes back, "
               "linear ones from one reading of the rows", in_engines=False),
    ]  # fmt: skip
    max_iter: MaxIter
    tol: Tol


class SummaryOptions(TypedDict, total=False):
    """Options of `summary` for a record."""

    level: Annotated[float, Option(0.95, SHARE, "level of confidence of the intervals")]


class NoOptions(TypedDict, total=False):
    """Options of a method without options."""


class CrossValidateOptions(TypedDict, total=False):
    """Options of `cross_validate`, besides those of the method."""

    folds: Annotated[
        Any,
        Option(None, SPLITS, "how the rows of a table are split: a number of folds; a column whose "
               "values are the folds; pairs of row numbers, (train, test); or a splitter of "
               "scikit-learn. Records have their folds", in_engines=False),
    ]  # fmt: skip
    key: Annotated[
        str | None,
        Option(None, COLUMN, "field of the table whose value decides the fold, so that rows of "
               "equal keys stay together; default: the columns that are read. Of a splitter the "
               "column of its groups", in_engines=False),
    ]  # fmt: skip
    time: Annotated[
        str | None,
        Option(None, COLUMN, "field of the table by which rows are in order: each fold is judged "
               "by what the rows before it give; of records ``\"fold\"``", in_engines=False),
    ]  # fmt: skip
    metric: Annotated[
        str | Sequence[str] | None,
        Option(None, METRICS, "metric of `evaluate`, or several, of which the first decides, on "
               "the rows of a table; `key` then also names the queries of ndcg", in_engines=False),
    ]  # fmt: skip
    payoff: Annotated[
        tuple[float, float] | None,
        Option(None, PAYOFF, "what a row that is accepted earns if its target is 1, and loses if "
               "it is 0: a metric beside the others, as in `evaluate`", in_engines=False),
    ]  # fmt: skip
    cv: Annotated[
        Any,
        Option(None, SPLITS_BY_ANOTHER_NAME, "`folds`, by the name that scikit-learn has for it",
               in_engines=False),
    ]  # fmt: skip
    callback: Callback


class StoppedOptions(TypedDict, total=False):
    """Options of `stopped_sequence`, besides those of `anytime_sequence`."""

    patience: Annotated[
        int, Option(3, COUNT, "steps without a lower mean error after which the searches end")
    ]
    choice: Annotated[
        ChoiceName,
        Option("one_standard_error", one_of(ChoiceName), "``\"one_standard_error\"``, the simplest "
               "step within one standard error of the best, or ``\"best\"``"),
    ]  # fmt: skip
    folds: Annotated[Any, Option(None, SPLITS, "as in `cross_validate`, parting the rows")]
    key: Annotated[str | None, Option(None, COLUMN, "as in `cross_validate`")]
    max_groups: MaxGroups


class StabilityOptions(TypedDict, total=False):
    """Options of `stability`, besides those of the method."""

    size: Annotated[
        int | None,
        Option(None, COUNT, "groups that each record chooses: of a sequence the best prefix of so "
               "many or fewer; default: all that a search ends with"),
    ]  # fmt: skip
    threshold: Annotated[
        float, Option(0.75, THRESHOLD, "share of the records from which on a group is stable")
    ]
    records: Annotated[int | None, Option(None, COUNT, "records to draw; default 100")]
    kind: Annotated[
        DrawName | None,
        Option(None, one_of(DrawName), "how rows are drawn, as in `dbselect.io.resample`; default "
               "``\"halves\"``"),
    ]  # fmt: skip
    key: Annotated[str | None, Option(None, COLUMN, "field whose equal values are drawn together")]
    callback: Callback


class KnockoffOptions(TypedDict, total=False):
    """Options of `knockoffs`, besides those of the search."""

    q: Annotated[
        float,
        Option(0.1, SHARE, "bound on the expected share of false groups among those selected"),
    ]
    search: Annotated[
        OrderingName,
        Option("anytime_sequence", one_of(OrderingName), "method that orders groups and copies"),
    ]
    kind: Annotated[
        KnockoffName,
        Option("fixed", one_of(KnockoffName), "``\"fixed\"``: nothing is assumed of the columns, "
               "errors are normal, independent and of one variance, and there are at least "
               "2 D + 1 rows of D columns; ``\"second_order\"``: rows are those of normal columns, "
               "whatever the errors, with D + 2 rows at least"),
    ]  # fmt: skip
    draws: Annotated[
        int,
        Option(1, COUNT, "times that knockoffs are drawn; of more than one the selection depends "
               "less on the seed (e-values, of knockoffs at q / 2)"),
    ]  # fmt: skip


class TablesOptions(TypedDict, total=False):
    """Options of `anytime_tables`."""

    budget: Budget
    max_groups: MaxGroups
    epsilon: Annotated[
        float,
        Option(0.0, NOT_NEGATIVE, "share of the target's variance that a table must gain"),
    ]
    unmatched: Annotated[
        UnmatchedName,
        Option("indicator", one_of(UnmatchedName), "what happens to a key that a table lacks: "
               "``\"indicator\"`` takes 0 and a column that is 1 there, ``\"skip\"`` leaves its "
               "rows out, ``\"error\"`` refuses"),
    ]  # fmt: skip


class CoverageOptions(TypedDict, total=False):
    """Options of `coverage`."""

    similarity: Annotated[
        float,
        Option(0.7, SHARE, "absolute correlation from which on two columns are in one cluster"),
    ]
    reward: Annotated[
        float,
        Option(0.1, NOT_NEGATIVE, "what all clusters together are worth, as a share of the "
               "target's variance"),
    ]  # fmt: skip


class DesignOptions(TypedDict, total=False):
    """Options of `a_optimal`, which chooses rows and takes no problem."""

    key: Annotated[
        str | None,
        Option(None, COLUMN, "field that names a row in the result", in_engines=False),
    ]
    beta2: Annotated[float, Option(1.0, VARIANCE, "prior precision of each coefficient")]
    sigma2: Annotated[float, Option(1.0, VARIANCE, "variance of the noise")]
    method: Annotated[
        Literal["greedy", "dash"],
        Option("greedy", one_of(("greedy", "dash")), "``\"greedy\"`` takes the row of the largest "
               "gain each time; ``\"dash\"`` random sets of good rows, all candidates in memory",
               in_engines=False),
    ]  # fmt: skip
    scale_rows: Annotated[bool, Option(False, FLAG, "whether each row is scaled to norm 1")]
    seed: Annotated[int, Option(0, SEED, 'of ``"dash"``', in_engines=False)]
    memory_limit: Annotated[
        int,
        Option(
            2**30,
            COUNT,
            "bytes for candidates, 24 d + 64 each; more are read again at some steps",
            in_engines=False,
        ),
    ]
