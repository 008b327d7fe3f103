"""The warning that the rows that judge a model also chose its columns."""

from dbselect.errors import SelectionWarning, warn_caller


def warn_of_choice() -> None:
    """Warn that rows judge the columns that they also chose."""
    warn_caller(
        "the rows that chose the columns also judge them, so p-values are too small; "
        "fit the columns on other rows for p-values that hold",
        SelectionWarning,
    )
