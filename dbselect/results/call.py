"""What a result answers: the problem, without its rows, and the method with its options."""

import json
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import polars as pl

from dbselect.errors import DbselectError, RecordError
from dbselect.linear.information import SIGNS
from dbselect.objectives.score import Score
from dbselect.options.kinds import FRACTION, POSITIVE, one_of
from dbselect.record.terms import Terms
from dbselect.spec.spec import Spec, answer_of, problem_of

M = TypeVar("M")
#: Options that are no part of the answer.
APART = ("callback", "executor", "resume")


@dataclass(frozen=True)
class Call:
    """A method of a problem and its options, which another source can be asked as well.

    Parameters
    ----------
    problem : without its rows
    method : name of the method
    options : those that are not at their defaults, by name
    of_gram : whether the source was a Gram, whose columns and terms the table lacks

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

    @classmethod
    def of(cls, problem: Spec, method: str, options: Mapping[str, Any], of_gram: bool) -> "Call":
        """Return the call of a method, without rows."""
        kept = {name: value for name, value in options.items() if name not in APART}
        return cls(problem.without_rows(), method, kept, of_gram)

    def on(self, source: Any, **options: Any) -> Any:
        """Return the answer of another source, with some options changed."""
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
            fields["source"] = source.stored()  # a score is no table
        asked = {"method": self.method, "options": dict(self.options), "of_gram": self.of_gram}
        return json.dumps({"problem": fields, **asked}, default=_plain)

    @classmethod
    def from_json(cls, text: Any) -> "Call":
        """Read what `to_json` wrote.

        Raises
        ------
        RecordError : the text is no such call
        """
        try:
            found = json.loads(text)
            fields = dict(found["problem"])
            if isinstance(fields["costs"], list):
                fields["costs"] = pl.Series(fields["costs"], dtype=pl.Float64)
            if "terms" in fields:
                fields["terms"] = Terms.from_struct(fields["terms"])
            score = fields.pop("source", None)
            source = score and Score.of_file(score)
            return cls(
                problem_of(source, **fields),
                str(found["method"]),
                dict(found["options"]),
                bool(found["of_gram"]),
            )
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            raise RecordError(f"the problem of the record is damaged: {error}") from error


class Answer:
    """A result of a call, and what it takes from the problem that it answers."""

    if TYPE_CHECKING:  # a field of results

        @property
        def call(self) -> Call:
            """The problem, without its rows, and the method with its options."""

    @property
    def problem(self) -> Spec:
        """What is asked about the data, without its rows."""
        return self.call.problem

    @property
    def ridge(self) -> float:
        """Penalty, >= 0."""
        return self.problem.ridge

    @property
    def scale(self) -> bool:
        """Whether the penalty is on unit-variance columns."""
        return self.problem.scale

    @property
    def has_intercept(self) -> bool:
        """False where models go through the origin."""
        return self.problem.intercept


class Judged(Answer, Generic[M]):
    """Models of one problem, which information criteria compare."""

    @abstractmethod
    def model(self, step: int, /) -> M:
        """Return one of the models, by its number."""

    @property
    @abstractmethod
    def _named(self) -> pl.DataFrame:
        """What names the models, a row each."""

    def criteria(self, *, gamma: float = 1.0, penalty: float | None = None) -> pl.DataFrame:
        """Return information criteria of every model.

        Parameters
        ----------
        gamma : weight of the number of candidate groups in EBIC, 0 (BIC) to 1
        penalty : of GIC, what a column must gain, > 0; default: log(log n) log D, at
            least 2

        Returns
        -------
        DataFrame: step, action, group, or of a path penalty; df, the rank with the intercept; aic,
        bic, ebic, gic and cp, less is better; adjusted_r2, more is better

        Raises
        ------
        ArgumentError : `gamma` or `penalty` is out of range; a sequence with a ridge of
            generalised linear models was read from a file, which does not hold its df

        Notes
        -----
        The formulas are those of `linear.information`; aic and bic are those of
        statsmodels' OLS. n is the number of rows, whatever their weights: weights are
        precisions, not counts, and add a constant to aic, bic, ebic and gic that is the
        same for all models. Aliased columns are not counted; with a ridge, df is the
        effective number of parameters. A model with no rows left to judge it, n <= df,
        has NULL, as has cp where the model on all columns has none. A residual share
        below 1e-14 counts as 1e-14: of perfect fits the smallest is the best. EBIC counts
        groups, held of all there are. O(D^3), as the search.

        Several responses: errors are taken as independent, each response with a variance of
        its own. df, aic, bic, gic and cp are the sums over the responses; EBIC counts the
        choice of groups once, and adjusted_r2 is the mean by the shares of the responses.

        A path of penalties: df and the residuals are those of the shrunk fit, and EBIC counts what
        comes and goes: columns of the lasso, groups of the group lasso.

        Generalised linear models: the deviance takes the place of -2 log-likelihood, which
        it is for the families binomial and multinomial (aic and bic are those of
        statsmodels' GLM and MNLogit); for poisson it is less by what a perfect fit has, the
        same for all steps. Family gaussian has the Gaussian log-likelihood of linear models.
        df counts K - 1 parameters a column for K classes. cp and adjusted_r2 are NULL, but
        for family gaussian adjusted_r2: they compare variances of residuals.

        References
        ----------
        Chen, Chen (2008), Biometrika 95, eq. 1; Chen, Chen (2012), Statistica Sinica 22,
        of generalised linear models; Zhang, Li, Tsai (2010), JASA 105; Fan, Tang (2013),
        JRSS B 75, section 4.1; Mallows (1973), Technometrics 15; Zou, Hastie, Tibshirani (2007),
        Annals of Statistics 35, of the lasso.

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
        found = self._criteria(float(gamma), penalty and float(penalty))
        return pl.concat([self._named, found], how="horizontal")

    @abstractmethod
    def _criteria(self, gamma: float, penalty: float | None) -> pl.DataFrame:
        """Return df and the criteria of every model."""

    def best(
        self, criterion: str = "bic", *, gamma: float = 1.0, penalty: float | None = None
    ) -> M:
        """Return the model that a criterion prefers, the first of equals.

        Parameters
        ----------
        criterion : ``"aic"``, ``"bic"``, ``"ebic"``, ``"gic"``, ``"cp"`` or
            ``"adjusted_r2"``, as in `criteria`
        gamma, penalty : as in `criteria`

        Raises
        ------
        ArgumentError : an unknown criterion, or one without a meaning for the family;
            `gamma` or `penalty` is out of range
        DataError : there are too few rows for the criterion
        """
        one_of(SIGNS).check("criterion", criterion)
        return self.model(self._preferred(criterion, gamma, penalty))

    def _preferred(self, criterion: str, gamma: float = 1.0, penalty: float | None = None) -> int:
        """Return the number of the model that `best` returns."""
        values = self.criteria(gamma=gamma, penalty=penalty)[criterion]
        number = (SIGNS[criterion] * values).arg_min()
        if number is None:
            raise self._no_criterion(criterion)
        return number

    @abstractmethod
    def _no_criterion(self, criterion: str) -> DbselectError:
        """Return the error that says why a criterion is NULL for all models."""


def _costs(costs: Any) -> Any:
    return costs.to_list() if isinstance(costs, pl.Series) else costs


def _plain(value: Any) -> Any:
    """Return a value of NumPy or another library as JSON takes it."""
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, Mapping):
        return dict(value)
    if hasattr(value, "__iter__"):
        return list(value)
    return repr(value)
