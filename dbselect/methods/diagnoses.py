"""What a record tells of a least-squares model, for doors that have records and no models."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from dbselect.errors import ArgumentError
from dbselect.methods.fit import fit
from dbselect.methods.options import Options
from dbselect.record.gram import Gram
from dbselect.results.model import Model


@dataclass(frozen=True, kw_only=True)
class DiagnosisOptions(Options):
    """The options of all: which model it is that a record has."""

    columns: Sequence[str] | None = None
    intercept: bool = True

    def __post_init__(self) -> None:
        """Refuse options that no data could make right."""
        super().__post_init__()
        check_list("columns", self.columns)
        if not isinstance(self.intercept, bool):
            raise ArgumentError(f"intercept is {self.intercept!r}; it must be True or False")

    def asked(self, model: Model) -> Any:
        """Return what is told of the model, as plain data."""
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class VifOptions(DiagnosisOptions):
    """The options of `Model.vif` of a record."""

    method: ClassVar[str] = "vif"

    def asked(self, model: Model) -> Any:
        """Return a struct for each column."""
        return model.vif().to_dicts()


@dataclass(frozen=True, kw_only=True)
class PartialOptions(DiagnosisOptions):
    """The options of `Model.partial_correlations` of a record."""

    method: ClassVar[str] = "partial_correlations"

    def asked(self, model: Model) -> Any:
        """Return a struct for each column."""
        return model.partial_correlations().to_dicts()


@dataclass(frozen=True, kw_only=True)
class ConditionOptions(DiagnosisOptions):
    """The options of `Model.condition_number` of a record."""

    method: ClassVar[str] = "condition_number"

    def asked(self, model: Model) -> Any:
        """Return the number."""
        return model.condition_number


@dataclass(frozen=True, kw_only=True)
class FTestOptions(DiagnosisOptions):
    """The options of `Model.f_test` of a record."""

    method: ClassVar[str] = "f_test"

    tested: Sequence[str] | None = None

    def __post_init__(self) -> None:
        """Refuse options that no data could make right."""
        super().__post_init__()
        check_list("tested", self.tested)

    def asked(self, model: Model) -> Any:
        """Return the test as a struct."""
        return model.f_test(self.tested).row(0, named=True)


def check_list(name: str, value: Any) -> None:
    """Refuse what is neither None nor a list of names."""
    whole = isinstance(value, list | tuple) and all(isinstance(one, str) for one in value)
    if value is not None and not whole:
        raise ArgumentError(f"{name} is {value!r}; it must be a list of column names and globs")


def diagnosis(options: DiagnosisOptions) -> Callable[[Gram, str], Any]:
    """Return what makes of a Gram and a target what is asked of their least squares."""

    def ask(gram: Gram, target: str) -> Any:
        return options.asked(fit(gram, target, options.columns, intercept=options.intercept))

    return ask
