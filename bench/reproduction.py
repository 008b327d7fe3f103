"""Repeat what the papers published, and write docs/reproduction.md.

``make reproduce`` runs all parts; with names, as in ``python bench/reproduction.py foba_boston``,
those parts of the page are written anew and the others stay. ``--quick`` runs all of it in small.
"""

import argparse
import sys
import time
import warnings
from pathlib import Path

# The documents of Table 2 are those of an example.
sys.path.append(str(Path(__file__).parents[1] / "examples"))

from reproduce import bilevel, dash, foba, natural, sequencing, thresholding
from reproduce.page import Part, Study, written

PARTS: dict[str, Part] = {
    "foba_simulation": foba.simulation,
    "foba_boston": foba.boston,
    "sequencing_table_1": sequencing.table_1,
    "sequencing_table_2": sequencing.table_2,
    "sequencing_figure_5": natural.figure_5,
    "sequencing_time": sequencing.training_time,
    "sequencing_doubling": sequencing.doubling,
    "sght_table_3": bilevel.table_3,
    "sght_table_4": bilevel.table_4,
    "sght_projection": thresholding.projection,
    "sght_convergence": thresholding.convergence,
    "dash_linear": dash.linear,
    "dash_logistic": dash.logistic,
    "dash_design": dash.design,
}
PAGE = Path(__file__).parents[1] / "docs" / "reproduction.md"


def main() -> None:
    """Run the parts that are asked for, each of which is kept as soon as it is done."""
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
    study = Study(options.out.with_suffix(""), options.quick)
    for name in options.parts or PARTS:
        start = time.perf_counter()
        blocks = list(PARTS[name](study))
        took = time.perf_counter() - start
        page = options.out.read_text() if options.out.exists() else ""
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(written(page, list(PARTS), name, blocks))
        print(f"{name}: {took:.0f} s", flush=True)


if __name__ == "__main__":
    main()
