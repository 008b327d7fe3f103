"""Tables of the papers as data: a figure by measure and method.

`claims.orders` makes a claim of every two figures of a measure that differ.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import anytime


@dataclass(frozen=True)
class Printed:
    """A table as it is printed.

    Parameters
    ----------
    paper, table : how it is cited
    figures : measure -> method -> figure
    """

    paper: str
    table: str
    figures: Mapping[str, Mapping[str, float]]

    @property
    def methods(self) -> list[str]:
        """The methods in the order of the table."""
        return list(dict.fromkeys(method for row in self.figures.values() for method in row))


def _table(paper: str, table: str, methods: str, rows: Mapping[str, tuple[float, ...]]) -> Printed:
    names = methods.split(", ")
    return Printed(
        paper, table, {name: dict(zip(names, row, strict=True)) for name, row in rows.items()}
    )


#: Filed apart: real data that no paper has, and Sparse fitted anew.
BESIDE = "beside the papers"

HU = "Hu et al. (2016)"
_HU = ", ".join(anytime.METHODS)
HU_1 = _table(
    HU, "Table 1", _HU,
    {"0.97-timeliness": (0.4406, 0.4086, 0.4340, 0.4073, 0.4525, 0.4551, 0.4508, 0.3997)},
)  # fmt: skip
HU_2 = _table(
    HU, "Table 2", _HU, {f"groups of {size}": row for size, row in anytime.PUBLISHED.items()}
)

ZHANG = "Zhang (2008)"
#: Of 50 runs.
ZHANG_1 = _table(
    ZHANG, "simulation", "FoBa, forward, L1",
    {
        "training error": (0.093, 0.16, 0.25),
        "parameter error": (0.057, 0.52, 1.1),
        "selection error": (0.76, 1.8, 3.2),
    },
)  # fmt: skip

XIANG = "Xiang et al. (2014)"
_XIANG = "sgLasso, frac(1,2), frac(2,1), OMP, gOMP, DC, SGHT"
XIANG_3 = {
    "case 1": _table(
        XIANG, "Table 3, bi-level (case 1)", _XIANG,
        {
            "groups": (19.1, 8.9, 8.6, 8.4, 3.8, 7.7, 5.2),
            "false groups": (13.1, 2.9, 2.8, 3.0, 0.0, 2.0, 0.0),
            "missed groups": (0.0, 0.0, 0.2, 0.6, 2.2, 0.3, 0.8),
            "columns": (93.3, 59.7, 86.0, 21.0, 38.0, 33.2, 19.6),
            "false columns": (75.3, 41.7, 68.6, 5.9, 26.6, 16.2, 4.2),
            "missed columns": (0.0, 0.0, 0.6, 2.9, 6.6, 1.0, 2.6),
            "seconds": (10.4, 15.7, 25.9, 1.6, 0.85, 34.3, 17.4),
        },
    ),
    "case 2": _table(
        XIANG, "Table 3, group (case 2)", _XIANG,
        {
            "groups": (16.7, 8.3, 7.5, 4.8, 4.2, 5.6, 5.6),
            "false groups": (10.8, 3.2, 1.7, 1.8, 0.0, 2.0, 1.5),
            "missed groups": (0.1, 0.9, 0.2, 3.0, 1.8, 2.4, 1.9),
            "columns": (167.0, 59.0, 75.0, 7.2, 42.0, 33.9, 51.6),
            "false columns": (108.0, 19.9, 17.0, 1.9, 0.0, 7.0, 12.5),
            "missed columns": (1.0, 20.9, 2.0, 54.7, 18.0, 33.1, 20.9),
            "seconds": (12.2, 29.9, 19.8, 1.6, 0.85, 35.6, 16.3),
        },
    ),
}  # fmt: skip
XIANG_4 = _table(
    XIANG, "Table 4, Boston Housing", _XIANG,
    {
        "groups": (7.1, 9.3, 9.6, 4.3, 4.2, 2.7, 2.1),
        "columns": (20.3, 16.1, 28.8, 6.0, 12.0, 5.2, 3.0),
        "squared error": (2603.50, 8485.12, 8530.00, 8089.91, 8924.55, 8322.14, 545.27),
    },
)  # fmt: skip

QIAN = "Qian, Singer (2019)"
