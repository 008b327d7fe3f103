"""When selected columns are so nearly dependent that their coefficients lose digits."""

import math
import warnings

from dbselect.errors import ConditionWarning

#: Condition number of the selected columns' correlations above which coefficients
#: keep fewer than six of sixteen digits.
CONDITION_LIMIT = 1e10


def warn_of(condition: float, stacklevel: int) -> None:
    """Warn where selected columns are so nearly dependent that coefficients lose digits."""
    if condition > CONDITION_LIMIT:
        warnings.warn(
            f"the selected columns have condition number {condition:.1e}; coefficients keep "
            f"about {max(0, 16 - math.log10(condition)):.0f} of 16 digits",
            ConditionWarning,
            stacklevel=stacklevel,
        )
