"""What becomes of a missing value: which policy holds for which column."""

from collections.abc import Mapping, Sequence
from typing import Any

from dbselect.errors import ColumnError, DataError
from dbselect.options.kinds import one_of
from dbselect.record.columns import SUFFIX, match

#: What becomes of a missing value: its row is left out, or that is an error; or it is filled.
POLICIES = ("skip", "error", "mean", "indicator")
#: Those that keep the row.
FILLS = ("mean", "indicator")
_POLICY = one_of(POLICIES)


def policies_of(null_policy: Any, columns: Sequence[str]) -> list[str]:
    """Return the policy of each column; of names and globs the last that means it holds."""
    given = null_policy if isinstance(null_policy, Mapping) else {"*": null_policy}
    policies = dict.fromkeys(columns, "skip")
    for pattern, policy in given.items():
        _POLICY.check("null_policy", policy)
        means = columns if pattern == "*" else match([pattern], columns, "null_policy")
        policies.update(dict.fromkeys(means, policy))
    for name, policy in policies.items():
        if policy == "indicator" and name + SUFFIX in policies:
            raise ColumnError(
                f"column '{name}{SUFFIX}' has the name of the indicator of '{name}'; rename it"
            )
    return list(policies.values())


def check_policies(null_policy: Any) -> None:
    """Refuse a policy that there is not, whatever the columns are."""
    given = null_policy.values() if isinstance(null_policy, Mapping) else [null_policy]
    for policy in given:
        _POLICY.check("null_policy", policy)


def check_missing(columns: Sequence[str], missing: Mapping[str, int]) -> None:
    """Refuse missing values, counted by column, in columns of policy ``"error"``."""
    for name in columns:
        if count := missing.get(name, 0):
            raise DataError(
                f"column '{name}' is missing in {count} rows; null_policy 'error' allows none"
            )
