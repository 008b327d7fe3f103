"""Repeat what the papers published, and write docs/reproduction.md.

``make reproduce`` runs all parts; with names, as in ``python bench/reproduction.py foba_boston``,
those parts of the page are written anew and the others stay. ``--quick`` runs all of it in small.
"""

import argparse
import sys
import time
import warnings
from pathlib import Path

import polars as pl

# The documents of Table 2 are those of an example.
sys.path.append(str(Path(__file__).parents[1] / "examples"))

from reproduce import bilevel, dash, foba, natural, oracles, sequencing, theorems, thresholding
from reproduce.claims import framed
from reproduce.page import Part, Study, head, written

PARTS: dict[str, Part] = {
    "sequencing_table_1": sequencing.table_1,
    "sequencing_table_2": sequencing.table_2,
    "sequencing_flights": sequencing.flights,
    "sequencing_figure_5": natural.figure_5,
    "sequencing_time": sequencing.training_time,
    "foba_simulation": foba.simulation,
    "foba_boston": foba.boston,
    "sght_table_3": bilevel.table_3,
    "sght_table_4": bilevel.table_4,
    "sght_projection": thresholding.projection,
    "sght_convergence": thresholding.convergence,
    "dash_linear": dash.linear_d1,
    "dash_logistic": dash.logistic,
    "dash_design": dash.design,
    "dash_oracle": oracles.slow,
    "theorems": theorems.margins,
}
PAGE = Path(__file__).parents[1] / "docs" / "reproduction.md"


def main() -> None:
    """Run the parts of the command line; each is written as soon as it is done."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("parts", nargs="*", help=f"default: all of {', '.join(PARTS)}")
    parser.add_argument("--quick", action="store_true", help="few runs, small sizes")
    parser.add_argument("--out", type=Path, default=PAGE, help="page to write")
    options = parser.parse_args()
    unknown = set(options.parts) - set(PARTS)
    if unknown:
        sys.exit(f"there is no part {sorted(unknown)}; there is {list(PARTS)}")
    # Samples as small as those of the papers are near saturation; the page says where.
    warnings.simplefilter("ignore", UserWarning)
    folder = options.out.with_suffix("")
    folder.mkdir(parents=True, exist_ok=True)
    for name in options.parts or PARTS:
        study = Study(folder, options.quick)
        start = time.process_time()
        blocks = list(PARTS[name](study))
        took = time.process_time() - start
        claims = kept(folder / "claims.csv", framed(study.claims), name, took)
        seconds = claims.unique("part")["seconds"].sum()
        page = options.out.read_text() if options.out.exists() else ""
        missing = [part for part in PARTS if part not in set(claims["part"])]
        begin = head(claims, seconds, missing)
        options.out.write_text(begin + written(page, list(PARTS), name, blocks))
        print(f"{name}: {took:.0f} s of one core", flush=True)


def kept(path: Path, new: pl.DataFrame, part: str, took: float) -> pl.DataFrame:
    """Store the claims of a part beside those of other parts; return all in order."""
    new = new.select(pl.lit(part).alias("part"), pl.lit(round(took, 1)).alias("seconds"), pl.all())
    rows = {part: new}
    if path.exists():
        rows = {**pl.read_csv(path, schema_overrides=new.schema).partition_by(
            "part", as_dict=True, include_key=True)}  # fmt: skip
        rows = {key[0]: claims for key, claims in rows.items()} | {part: new}
    claims = pl.concat([rows[name] for name in PARTS if name in rows])
    claims.write_csv(path)
    return claims


if __name__ == "__main__":
    main()
