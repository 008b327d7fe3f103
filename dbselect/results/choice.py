"""What is said where the rows that judge a model also chose its columns."""

import warnings

from dbselect.errors import SelectionWarning


def warn_of_choice() -> None:
    """Warn that rows judge the columns that they also chose."""
    warnings.warn(
        "the rows that chose the columns also judge them, so p-values are too small; "
        "fit the columns on other rows for p-values that hold",
        SelectionWarning,
        stacklevel=3,
    )
