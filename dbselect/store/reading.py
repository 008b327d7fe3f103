"""Reading options of a store: equal at every refresh, so that records merge."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, Self

from dbselect.errors import ArgumentError, ColumnError, RecordError
from dbselect.options.kinds import COLUMN, one_of
from dbselect.record.files import FORMAT, VERSION, check_version
from dbselect.record.policies import check_policies, refuse_em
from dbselect.record.terms import Terms
from dbselect.sources.partial.learn import MAX_LEVELS, check_max_levels
from dbselect.sources.request import NullPolicy
from dbselect.store.shelf import Shelved

#: Columns of a store besides its keys.
PART, FINGERPRINT, READING, GRAM = "part", "fingerprint", "reading", "gram"
OWN = (PART, FINGERPRINT, READING, GRAM)
#: Prefixes of fingerprints: of records from `put`, before their version; of a part that could not
#: be read, before the error.
PUT, UNREAD = "put: ", "not read: "

#: How parts that the table no longer has, and new columns, are handled.
Keep = Literal["table", "all"]
NewColumns = Literal["version", "ignore", "null", "error"]
#: Options that a later refresh may change, as records do not depend on them.
POLICIES = {"keep": one_of(Keep), "new_columns": one_of(NewColumns)}


@dataclass(frozen=True)
class Reading:
    """The options of `GramStore.refresh`, stored beside each record."""

    by: tuple[str, ...]
    columns: tuple[str, ...] | None = None
    weight: str | None = None
    null_policy: NullPolicy = "skip"
    max_levels: int = MAX_LEVELS
    terms: Terms | None = None
    keep: Keep = "table"
    new_columns: NewColumns = "version"

    def __post_init__(self) -> None:
        twice = [name for name in self.by if self.by.count(name) > 1]
        if twice:
            raise ArgumentError(f"by is {list(self.by)}; it names '{twice[0]}' twice")
        for name in self.by:
            COLUMN.or_none().check("by", name)
            if name in OWN:
                raise ArgumentError(
                    f"by names a column '{name}'; rename it, as the store has a column of that name"
                )
        COLUMN.or_none().check("weight", self.weight)
        check_policies(self.null_policy)
        refuse_em(
            self.null_policy,
            "a store keeps sums of rows; it takes 'indicator', or keep patterns(part) of parts",
        )
        check_max_levels(self.max_levels)
        if not isinstance(self.terms, Terms | None):
            raise ArgumentError(
                f"terms is a {type(self.terms).__name__}; it must come from ds.terms"
            )
        for name, kind in POLICIES.items():
            kind.check(name, getattr(self, name))

    @property
    def kept_policy(self) -> NullPolicy:
        """The policy of stored records; means depend on the window and are filled later."""

        def kept(policy: str) -> str:
            return "indicator" if policy == "mean" else policy

        if isinstance(self.null_policy, str):
            return kept(self.null_policy)
        return {pattern: kept(policy) for pattern, policy in self.null_policy.items()}

    def to_json(self, fields: Mapping[str, str] | None = None) -> str:
        """Return the options and the fields read as JSON; equal options give equal text."""
        terms = None if self.terms is None else self.terms.without_shares().to_struct()
        options = asdict(self) | {"terms": terms, FORMAT: VERSION, "fields": fields}
        return json.dumps(options)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read the text of `to_json`."""
        try:
            options = json.loads(text)
            check_version(options.pop(FORMAT, VERSION), "the store")
            options.pop("fields", None)
            terms = options["terms"]
            lists = {
                name: None if options[name] is None else tuple(options[name])
                for name in ("by", "columns")
            }
            return cls(**{**options, **lists, "terms": terms and Terms.from_struct(terms)})
        except (KeyError, TypeError, ValueError) as error:
            raise RecordError(f"the store has no valid reading options: {error}") from None


def reading_of(state: Shelved) -> Reading | None:
    """Return the reading options of a store; None if it is empty."""
    if state.frame is None or state.frame.is_empty():
        return None
    return Reading.from_json(state.frame[READING][0])


def fields_from(text: str) -> dict[str, str] | None:
    """Return the fields in the text of `Reading.to_json`; None if it has none."""
    fields: dict[str, str] | None = json.loads(text).get("fields")
    return fields


def agreed(passed: Mapping[str, Any], kept: Reading) -> Reading:
    """Return the reading options of a store; ArgumentError if the caller passes others."""
    for name, value in passed.items():
        stored = getattr(kept, name)
        if value != stored and name not in POLICIES:
            raise ArgumentError(
                f"{name} is {_shown(value)}, but the store was made with {name} {_shown(stored)}; "
                "its records would not merge, so make another store"
            )
    return replace(kept, **{name: passed[name] for name in POLICIES if name in passed})


def untyped(name: str) -> ColumnError:
    """Return the error for a key whose type is unknown."""
    return ColumnError(
        f"by names column '{name}', of which all values are NULL and of no type; cast it"
    )


def _shown(value: Any) -> str:
    return repr(list(value) if isinstance(value, tuple) else value)
