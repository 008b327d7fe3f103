"""The types of what each kind of method answers for a Gram record, in Arrow."""

import pyarrow as pa

from dbselect.record.steps import STEP_TYPE

_MODEL = [
    ("columns", pa.list_(pa.string())),
    ("groups", pa.list_(pa.string())),
    ("intercept", pa.float64()),
    ("coefficients", pa.map_(pa.string(), pa.float64())),
    ("explained", pa.float64()),
    ("r2", pa.float64()),
    ("spent", pa.float64()),
]
#: How the columns of the raw table became those of the model, as JSON; last in every model.
_TERMS = ("terms", pa.string())


def _numbers(*names: str) -> list[tuple[str, pa.DataType]]:
    return [(name, pa.float64()) for name in names]


def _by_column(*names: str) -> pa.DataType:
    return pa.list_(pa.struct([("column", pa.string()), *_numbers(*names)]))


#: The type of what each kind of method returns for a record.
TYPES: dict[str, pa.DataType] = {
    "sequence": pa.list_(STEP_TYPE),
    "model": pa.struct([*_MODEL, _TERMS]),
    "proof": pa.struct([*_MODEL, *_numbers("bound", "gap"), ("proven", pa.bool_()), _TERMS]),
    "penalised": pa.struct([*_MODEL, *_numbers("penalty", "df", "gap", "violation"), _TERMS]),
    "selection": pa.list_(
        pa.struct(
            [
                ("group", pa.string()),
                *_numbers("cost", "statistic", "frequency", "e_value"),
                ("selected", pa.bool_()),
            ]
        )
    ),
    "fit": pa.struct(
        [
            ("intercept", pa.float64()),
            ("coefficients", pa.map_(pa.string(), pa.float64())),
            *_numbers("explained", "r2", "sigma"),
            ("rows", pa.int64()),
            ("skipped", pa.int64()),
            ("aliased", pa.list_(pa.string())),
            ("note", pa.string()),
            _TERMS,
        ]
    ),
    "summary": pa.list_(
        pa.struct(
            [
                ("term", pa.string()),
                *_numbers("estimate", "std_error", "statistic", "p_value", "standardized", "low"),
                *_numbers("high"),
            ]
        )
    ),
    "vif": _by_column("vif"),
    "partial_correlations": _by_column("correlation", "partial", "semipartial"),
    "condition_number": pa.float64(),
    "f_test": pa.struct(
        [("df", pa.int64()), ("df_residual", pa.int64()), *_numbers("statistic", "p_value")]
    ),
}
