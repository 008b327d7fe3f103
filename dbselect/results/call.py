"""The call that made a result: the problem, without its rows, and the method with its options.

And what results share: the call, attributes of their parts, criteria of their models.
"""

import json
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, overload

import polars as pl

from dbselect.errors import DataError, DbselectError, RecordError
from dbselect.linear.information import SIGNS
from dbselect.objectives.score import Score
from dbselect.options.conditions import Conditions, Shared, checked
from dbselect.options.kinds import FRACTION, POSITIVE, one_of
from dbselect.record.terms import Terms
from dbselect.spec.spec import Spec, answer_of, problem_of

M = TypeVar("M")
#: Options that do not change the result, so that a call does not keep them.
APART = ("callback", "executor", "resume")
#: Exceptions that a damaged record may raise.
DAMAGE = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError)


@dataclass(frozen=True)
class Call:
    """A problem, a method and its options, which can be applied to another source.

    Parameters
    ----------
    problem : without its rows
    method : name of the method
    options : options that differ from their defaults, by name
    of_gram : whether the source was a Gram, which has columns and terms that the table lacks
    shared : set-ups that ``with_costs`` put in the place of those of the problem; None = it did not

    Examples
    --------
    >>> import dbselect as ds
    >>> import polars as pl
    >>> table = pl.DataFrame({"a": [1, 2, 3, 4], "b": [1, -1, -1, 1], "y": [3, 4, 6, 9]})
    >>> call = ds.foba(table, "y", epsilon=0.1).call
    >>> call.method, call.options, call.problem
    ('foba', {'epsilon': 0.1}, Problem(y ~ all columns; without rows))
    >>> call.on(table.head(3)).steps["group"].to_list()
    [None, 'a']
    """

    problem: Spec
    method: str
    options: Mapping[str, Any] = field(default_factory=dict)
    of_gram: bool = False
    shared: Shared | None = field(default=None, repr=False)

    @classmethod
    def of(cls, problem: Spec, method: str, options: Mapping[str, Any], of_gram: bool) -> "Call":
        """Return the call of a method, without rows."""
        kept = {name: value for name, value in options.items() if name not in APART}
        return cls(problem.without_rows(), method, kept, of_gram)

    @property
    def told(self) -> Conditions:
        """The conditions on sets of groups."""
        told = self.problem.told
        return told if self.shared is None else replace(told, shared=self.shared)

    def on(self, source: Any, **options: Any) -> Any:
        """Apply the call to another source, with some options changed."""
        return answer_of(self.problem.on(source), self.method, **{**self.options, **options})

    def to_json(self) -> str:
        """Return the call as JSON, for files."""
        problem = self.problem
        fields: dict[str, Any] = {"target": problem.target, **problem.changed()}
        for name, write in (("family", str), ("terms", Terms.to_struct)):
            if name in fields:
                fields[name] = write(fields[name])
        fields |= {"groups": problem.groups, "costs": _costs(problem.costs)}
        source: Any = problem.source
        if hasattr(source, "stored"):
            fields["source"] = source.stored()  # the source is a score, not a table
        search = {"method": self.method, "options": dict(self.options), "of_gram": self.of_gram}
        if self.shared is not None:
            search["shared"] = self.shared
        return json.dumps({"problem": fields, **search}, default=_plain)

    @classmethod
    def from_json(cls, text: Any) -> "Call":
        """Read the text of `to_json`.

        Raises
        ------
        RecordError : the text is not a valid call
        """
        try:
            record = json.loads(text)
            fields = dict(record["problem"])
            if isinstance(fields["costs"], list):
                fields["costs"] = pl.Series(fields["costs"], dtype=pl.Float64)
            if "terms" in fields:
                fields["terms"] = Terms.from_struct(fields["terms"])
            score = fields.pop("source", None)
            source = score and Score.of_file(score)
            return cls(
                problem_of(source, **fields),
                str(record["method"]),
                dict(record["options"]),
                bool(record["of_gram"]),
                None if record.get("shared") is None else checked("shared", record["shared"]) or {},
            )
        except DAMAGE as error:
            raise RecordError(f"the problem of the record is damaged: {error}") from error


T_co = TypeVar("T_co", covariant=True)


class Of(Generic[T_co]):
    """A read-only attribute that a part has by the same name, with its documentation."""

    def __init__(self, part: str, doc: str) -> None:
        self._part, self.__doc__ = part, doc

    def __set_name__(self, cls: Any, name: str) -> None:
        self._read = attrgetter(f"{self._part}.{name}")

    @overload
    def __get__(self, whole: None, cls: Any = None) -> Self: ...

    @overload
    def __get__(self, whole: object, cls: Any = None) -> T_co: ...

    def __get__(self, whole: Any, cls: Any = None) -> Any:
        return self if whole is None else self._read(whole)


class Answer:
    """A result that keeps the call that made it."""

    if TYPE_CHECKING:  # a field of results

        @property
        def call(self) -> Call:
            """The problem, without its rows, and the method with its options."""

    problem = Of[Spec]("call", "The problem, without its rows.")
    ridge = Of[float]("problem", "Penalty, >= 0.")
    scale = Of[bool]("problem", "Whether the penalty is on unit-variance columns.")

    @property
    def has_intercept(self) -> bool:
        """False where models go through the origin."""
        return self.problem.intercept


class Judged(Answer, Generic[M]):
    """Models of one problem, with information criteria to compare them."""

    @abstractmethod
    def model(self, step: int, /) -> M:
        """Return the model with this number."""

    @property
    @abstractmethod
    def _labels(self) -> pl.DataFrame:
        """Columns that identify the models, one row per model."""

    def criteria(self, *, gamma: float = 1.0, penalty: float | None = None) -> pl.DataFrame:
        """Return information criteria of every model.

        Parameters
        ----------
        gamma : weight of the number of candidate groups in EBIC, 0 (BIC) to 1
        penalty : penalty of GIC for each column, > 0; default: log(log n) log D, at
            least 2

        Returns
        -------
        DataFrame: step, action, group, or for a path penalty; df, the rank with the intercept; aic,
        bic, ebic, gic and cp, lower is better; adjusted_r2, higher is better

        Raises
        ------
        ArgumentError : `gamma` or `penalty` is out of range; a sequence of generalised linear
            models with a ridge was read from a file, which does not hold its df

        Notes
        -----
        The formulas are those of `linear.information`; aic and bic are those of
        statsmodels' OLS. n is the number of rows, whatever their weights: weights are
        precisions, not counts, and add a constant to aic, bic, ebic and gic that is the
        same for all models. Aliased columns are not counted; with a ridge, df is the
        effective number of parameters. Criteria are NULL for a model with n <= df, and cp is
        NULL if the model on all columns has n <= df. A residual share below 1e-14 counts as
        1e-14, so that the smallest of several perfect fits is the best. EBIC counts the groups
        held among all groups. O(D^3), as the search.

        Several responses: errors are taken as independent, each response with its own
        variance. df, aic, bic, gic and cp are the sums over the responses; EBIC counts the
        choice of groups once, and adjusted_r2 is the mean weighted by the shares.

        A path of penalties: df and the residuals are those of the shrunk fit, and EBIC counts
        columns for the lasso and groups for the group lasso.

        Generalised linear models: the deviance replaces -2 log-likelihood. They are equal for
        the families binomial and multinomial (aic and bic are those of statsmodels' GLM and
        MNLogit); for poisson they differ by the log-likelihood of a perfect fit, the same for
        all steps. Family gaussian has the Gaussian log-likelihood of linear models. df counts
        K - 1 parameters per column for K classes. cp and adjusted_r2 compare variances of
        residuals; they are NULL, except adjusted_r2 for family gaussian.

        References
        ----------
        Chen, Chen (2008), Biometrika 95, eq. 1; Chen, Chen (2012), Statistica Sinica 22,
        for generalised linear models; Zhang, Li, Tsai (2010), JASA 105; Fan, Tang (2013),
        JRSS B 75, section 4.1; Mallows (1973), Technometrics 15; Zou, Hastie, Tibshirani (2007),
        Annals of Statistics 35, for the lasso.

        Examples
        --------
        >>> import dbselect as ds
        >>> import polars as pl
        >>> table = pl.DataFrame({"a": [1, 2, 3, 4], "b": [1, -1, -1, 1], "y": [3, 4, 6, 9]})
        >>> seq = ds.anytime_sequence(table, "y", max_groups=1)
        >>> seq.criteria()["bic"].round(3).to_list()
        [19.371, 8.579]
        """
        FRACTION.check("gamma", gamma)
        POSITIVE.or_none().check("penalty", penalty)
        criteria = self._criteria(float(gamma), penalty and float(penalty))
        return pl.concat([self._labels, criteria], how="horizontal")

    @abstractmethod
    def _criteria(self, gamma: float, penalty: float | None) -> pl.DataFrame:
        """Return df and the criteria of every model."""

    def best(
        self, criterion: str = "bic", *, gamma: float = 1.0, penalty: float | None = None
    ) -> M:
        """Return the best model by a criterion; the first of equal ones.

        Parameters
        ----------
        criterion : ``"aic"``, ``"bic"``, ``"ebic"``, ``"gic"``, ``"cp"`` or
            ``"adjusted_r2"``, as in `criteria`
        gamma, penalty : as in `criteria`

        Raises
        ------
        ArgumentError : an unknown criterion, or one that the family does not have;
            `gamma` or `penalty` is out of range
        DataError : there are too few rows for the criterion
        """
        one_of(SIGNS).check("criterion", criterion)
        return self.model(self._preferred(criterion, gamma, penalty))

    def _preferred(self, criterion: str, gamma: float = 1.0, penalty: float | None = None) -> int:
        """Return the number of the model of `best`."""
        values = self.criteria(gamma=gamma, penalty=penalty)[criterion]
        number = (SIGNS[criterion] * values).arg_min()
        if number is None:
            raise self._no_criterion(criterion)
        return number

    def _no_criterion(self, criterion: str) -> DbselectError:
        """Return the error for a criterion that is NULL for all models."""
        first: Any = self.model(0)
        return DataError(f"{first.rows} rows are too few for criterion {criterion!r}")


def _costs(costs: Any) -> Any:
    return costs.to_list() if isinstance(costs, pl.Series) else costs


def _plain(value: Any) -> Any:
    """Convert a value of NumPy or another library to JSON data."""
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, Mapping):
        return dict(value)
    if hasattr(value, "__iter__"):
        return list(value)
    return repr(value)
