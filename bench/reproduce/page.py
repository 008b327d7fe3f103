"""The page of what was repeated: its tables, pictures and claims, written part by part."""

import re
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import altair as alt
import numpy as np
import polars as pl

#: A picture's colours, those of Okabe and Ito.
COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#888888"]

HEAD = """# The papers, repeated

`make reproduce` writes this page and its pictures: what the papers on which dbselect rests have
published, beside what dbselect obtains. All data are made up from fixed seeds, but for Boston
Housing, which comes with mlxtend. "±" is the standard deviation over the runs. Where a paper leaves
its design open, the one taken is stated, and how it was chosen. A claim is "seen" or "not seen" in
these runs; times are of one machine, with one thread of BLAS. All of it takes some five minutes.
"""


@dataclass(frozen=True)
class Study:
    """How a part is run.

    Parameters
    ----------
    folder : where pictures go
    quick : few runs, small sizes
    """

    folder: Path
    quick: bool = False

    def of(self, full: Any, quick: Any) -> Any:
        """Return a size, by how the part is run."""
        return quick if self.quick else full

    def picture(self, name: str, words: str, chart: alt.TopLevelMixin) -> str:
        """Keep a picture and return the block that shows it."""
        self.folder.mkdir(parents=True, exist_ok=True)
        chart.save(self.folder / f"{name}.svg")
        return f"![{words}]({self.folder.name}/{name}.svg)"


#: What a part is: it yields blocks of markdown.
Part = Callable[[Study], Iterator[str]]


def prose(text: str) -> str:
    """Return a paragraph in lines of one width."""
    return textwrap.fill(" ".join(text.split()), 100, break_on_hyphens=False)


def table(rows: Iterable[Mapping[str, Any]]) -> str:
    """Return rows as a table; numbers are right of their column."""
    rows = list(rows)
    names = list(rows[0])
    ends = ["---:" if isinstance(rows[0][name], int | float) else "---" for name in names]
    lines = [names, ends, *([shown(row[name]) for name in names] for row in rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def shown(value: Any) -> str:
    """Return a number with four digits, and all else as it is."""
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def spread(values: Iterable[float]) -> str:
    """Return the mean and the standard deviation of some runs."""
    values = np.asarray(list(values), dtype=float)
    return f"{values.mean():.3g} ± {values.std():.2g}"


def claims(found: Mapping[str, tuple[bool, str]]) -> str:
    """Return claims as a table: whether each is seen, and by what."""
    return table(
        {"claim": claim, "here": "seen" if seen else "**not seen**", "by": by}
        for claim, (seen, by) in found.items()
    )


def lines(
    frame: pl.DataFrame,
    x: str,
    y: str,
    by: str,
    *,
    order: Sequence[str],
    titles: tuple[str, str],
    log: tuple[bool, bool] = (False, False),
    shape: str = "linear",
) -> alt.Chart:
    """Return lines, one a value of `by`, each with its own colour and dashes.

    Parameters
    ----------
    shape : of a line between points: ``"step-after"`` where nothing changes before the next
    """
    scales = [alt.Scale(type="log" if each else "linear", zero=False) for each in log]
    dashes = [[1, 0], [6, 3], [2, 2], [8, 3, 2, 3], [12, 4], [4, 6], [1, 4]]
    return (
        alt.Chart(frame)
        .mark_line(point=alt.OverlayMarkDef(size=12), interpolate=shape)
        .encode(
            x=alt.X(x, type="quantitative", title=titles[0], scale=scales[0]),
            y=alt.Y(y, type="quantitative", title=titles[1], scale=scales[1]),
            color=alt.Color(by, type="nominal", title=None, sort=list(order)).scale(
                domain=list(order), range=COLOURS[: len(order)]
            ),
            strokeDash=alt.StrokeDash(by, type="nominal", title=None, sort=list(order)).scale(
                domain=list(order), range=dashes[: len(order)]
            ),
        )
        .properties(width=340, height=230)
    )


def written(page: str, order: Sequence[str], part: str, blocks: Iterable[str]) -> str:
    """Return the page with one part written anew, all in their order.

    Parameters
    ----------
    page : as it is; empty at first
    order : names of all parts
    part : name of the one that was run
    blocks : of markdown
    """
    kept = dict(re.findall(r"<!-- part (\w+) -->\n(.*?)<!-- end -->\n", page, re.DOTALL))
    kept[part] = "\n\n".join(blocks) + "\n"
    there = {name: kept[name] for name in order if name in kept}
    parts = [f"<!-- part {name} -->\n{text}<!-- end -->\n" for name, text in there.items()]
    return "\n".join([HEAD, summary(there.values()), *parts])


def summary(parts: Iterable[str]) -> str:
    """Return how many claims are seen, and in a list those that are not."""
    verdicts = [
        (text.splitlines()[0].removeprefix("## "), claim, verdict)
        for text in parts
        for claim, verdict in re.findall(
            r"^\| (.+) \| (seen|\*\*not seen\*\*) \|", text, re.MULTILINE
        )
    ]
    missing = [f"- {part}: {claim}" for part, claim, verdict in verdicts if verdict != "seen"]
    told = f"Of {len(verdicts)} claims {len(verdicts) - len(missing)} are seen here. Not seen are:"
    return "\n".join([told, "", *missing, ""])
