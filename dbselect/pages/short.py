"""Lists of names short enough to be read in one line."""

from collections.abc import Sequence

#: Names that are listed; of more the first, and how many others there are.
LISTED = 8
#: Characters of a name; of a longer one the beginning.
NAME_LENGTH = 32


def listed(names: Sequence[str], nothing: str = "nothing") -> str:
    """Return names in words: ``a, b`` or ``a, b, ... and 198 more``; `nothing` without any."""
    shown = [
        name if len(name) <= NAME_LENGTH else name[: NAME_LENGTH - 3] + "..."
        for name in names[:LISTED]
    ]
    more = len(names) - len(shown)
    return ", ".join(shown) + (f", ... and {more} more" if more else "") if shown else nothing
