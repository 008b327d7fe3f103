"""How the table of a store is read: the same way at every refresh, so that records merge."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Self

from dbselect.errors import ArgumentError, ColumnError, RecordError
from dbselect.record.checks import check_column
from dbselect.record.policies import check_policies
from dbselect.record.terms import Terms
from dbselect.sources.learn import MAX_LEVELS, check_max_levels
from dbselect.sources.request import NullPolicy

#: Columns that a store has beside its keys.
PART, FINGERPRINT, READING, GRAM = "part", "fingerprint", "reading", "gram"
OWN = (PART, FINGERPRINT, READING, GRAM)


@dataclass(frozen=True)
class Reading:
    """What `GramStore.refresh` is told of a table, kept beside each record.

    Parameters
    ----------
    by, columns, weight, null_policy, max_levels, terms : as in `GramStore.refresh`
    """

    by: tuple[str, ...]
    columns: tuple[str, ...] | None = None
    weight: str | None = None
    null_policy: NullPolicy = "skip"
    max_levels: int = MAX_LEVELS
    terms: Terms | None = None

    def __post_init__(self) -> None:
        """Refuse what no table could make right."""
        twice = [name for name in self.by if self.by.count(name) > 1]
        if twice:
            raise ArgumentError(f"by is {list(self.by)}; it names '{twice[0]}' twice")
        for name in self.by:
            check_column("by", name)
            if name in OWN:
                raise ArgumentError(
                    f"by names a column '{name}'; rename it, as the store has a column of that name"
                )
        check_column("weight", self.weight)
        check_policies(self.null_policy)
        check_max_levels(self.max_levels)
        if not isinstance(self.terms, Terms | None):
            raise ArgumentError(
                f"terms is a {type(self.terms).__name__}; it must come from ds.terms"
            )

    @property
    def kept_policy(self) -> NullPolicy:
        """The policy of the records: a mean is that of a window, so it is put there later."""

        def kept(policy: str) -> str:
            return "indicator" if policy == "mean" else policy

        if isinstance(self.null_policy, str):
            return kept(self.null_policy)
        return {pattern: kept(policy) for pattern, policy in self.null_policy.items()}

    def to_json(self) -> str:
        """Return the same text for equal readings."""
        told = asdict(self) | {"terms": None if self.terms is None else self.terms.to_dict()}
        return json.dumps(told)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read what `to_json` gave.

        Raises
        ------
        RecordError : it is something else
        """
        try:
            told = json.loads(text)
            terms = told["terms"]
            lists = {name: _tuple(told[name]) for name in ("by", "columns")}
            return cls(**{**told, **lists, "terms": terms and Terms.from_dict(terms)})
        except (KeyError, TypeError, ValueError) as error:
            raise RecordError(f"the store does not say how its table was read: {error}") from None


def agreed(said: Mapping[str, Any], kept: Reading) -> Reading:
    """Return how a store reads its table, where a caller may say it again but not otherwise.

    Parameters
    ----------
    said : fields that a caller gives
    kept : what the store says

    Raises
    ------
    ArgumentError : the caller says something else
    """
    for name, value in said.items():
        was = getattr(kept, name)
        if value != was:
            raise ArgumentError(
                f"{name} is {_shown(value)}, but the store was made with {name} {_shown(was)}; its "
                "records would not merge, so make another store"
            )
    return kept


def untyped(name: str) -> ColumnError:
    """Return the error of a key of which nothing tells the type."""
    return ColumnError(
        f"by names column '{name}', of which all values are NULL and of no type; cast it"
    )


def _shown(value: Any) -> str:
    return repr(list(value) if isinstance(value, tuple) else value)


def _tuple(values: Sequence[str] | None) -> tuple[str, ...] | None:
    return None if values is None else tuple(values)
