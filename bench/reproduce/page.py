"""The page of reproduced results: its tables, pictures and claims, written part by part."""

import re
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import altair as alt
import numpy as np
import polars as pl
from scipy import stats

from reproduce.claims import LEVEL, ROUNDING, Claim, counted, framed
from reproduce.published import BESIDE, HU, QIAN, XIANG, ZHANG, Printed

#: A picture's colours, those of Okabe and Ito.
COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#888888"]

HEAD = """# The papers, repeated

`make reproduce` writes this page, its pictures and the [claims](reproduction/claims.csv): what the
papers on which dbselect rests have published, beside what dbselect obtains. Its parts took
{minutes} of one core. A claim is what a paper prints: every two figures of a table that differ
(`bench/reproduce/published.py`), a sentence under its own conditions, or a theorem. It is *seen*
where the whole 95 % interval of the mean paired difference, over at least 20 data sets, has the
published sign, *contradicted* where all of it has the other, and *undecided* else; one violation
contradicts a theorem. Orders that are definitions (an oracle above what it sorts), and methods that
are not here, make no claims. Of a hundred claims without any truth some five would be decided by
chance; claims of one table share runs. "±" is the standard deviation over the data sets. Data are
made up unless it says otherwise; seeds that chose a design begin at 0, those reported at 1000.
Times are of one machine, with one thread of BLAS.
"""

#: What each paper claims, in a line.
SAYS = {
    HU: "orders by gain per cost are timely: CS-G-FR and its oracle, then CS-G-OMP, before those "
        "that ignore cost, whitening or groups; greedy has a bound at every prefix",
    ZHANG: "FoBa errs less than forward selection and L1, and gives bad features back",
    XIANG: "SGHT selects groups and columns with fewer errors than convex and greedy methods; its "
           "projection is exact; four variants of the descent",
    QIAN: "DASH is 'comparable' to greedy and with five samples 'outperforms' it, is above top-k "
          "and random, in much fewer rounds; for large k two to eight times as fast as parallel "
          "greedy",
    BESIDE: "the same orders, on real data that no paper has, and of Sparse fitted anew",
}  # fmt: skip


@dataclass(frozen=True)
class Study:
    """Settings of a run, and the claims that it makes.

    Parameters
    ----------
    folder : where pictures go
    quick : few runs, small sizes
    """

    folder: Path
    quick: bool = False
    claims: list[Claim] = field(default_factory=list)

    def of(self, full: Any, quick: Any) -> Any:
        """Return the full size, or the quick one."""
        return quick if self.quick else full

    def seeds(self, full: int, quick: int = 2) -> range:
        """Return the seeds of the reported data sets; none of them chose a design."""
        return range(1000, 1000 + self.of(full, quick))

    def picture(self, name: str, words: str, chart: alt.TopLevelMixin) -> str:
        """Save a picture and return the block that shows it."""
        self.folder.mkdir(parents=True, exist_ok=True)
        chart.save(self.folder / f"{name}.svg")
        return f"![{words}]({self.folder.name}/{name}.svg)"

    def judge(self, *claims: Claim) -> str:
        """Keep claims; return their verdicts by table, and the names of those contradicted."""
        self.claims.extend(claims)
        return verdicts(framed(claims))


#: A part of the page: yields blocks of markdown.
Part = Callable[[Study], Iterator[str]]


def verdicts(claims: pl.DataFrame) -> str:
    """Return a sentence for each table of claims."""
    sentences = []
    for row in counted(claims, "table").to_dicts():
        own = claims.filter(table=row["table"], verdict="contradicted")["claim"].to_list()
        named = f" ({'; '.join(own)})" if own else ""
        sentences.append(
            f"{row['table']}, {row['data sets']} data sets: of {row['claims']} claims "
            f"{row['seen']} seen, {row['undecided']} undecided, {row['contradicted']} "
            f"contradicted{named}."
        )
    return "\n\n".join(map(prose, sentences))


def prose(text: str) -> str:
    """Return a paragraph in lines of one width."""
    return textwrap.fill(" ".join(text.split()), 100, break_on_hyphens=False)


def table(rows: Iterable[Mapping[str, Any]]) -> str:
    """Return rows as a table, with numbers aligned right."""
    rows = list(rows)
    names = list(rows[0])
    ends = ["---:" if isinstance(rows[0][name], int | float) else "---" for name in names]
    lines = [names, ends, *([shown(row[name]) for name in names] for row in rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def shown(value: Any) -> str:
    """Return a number with four digits, and all else as it is."""
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def spread(values: Iterable[float]) -> str:
    """Return the mean and the standard deviation of some runs, without what is rounding."""
    values = np.asarray(list(values), dtype=float)
    mean, deviation = values.mean(), values.std(ddof=min(1, len(values) - 1))
    return f"{mean:.3g}±{deviation if deviation > ROUNDING * abs(mean) else 0:.2g}"


def beside(printed: Printed, runs: pl.DataFrame, more: Sequence[str] = ()) -> str:
    """Return a table of published and obtained figures, a row a measure, of methods that run.

    Parameters
    ----------
    runs : seed, method, and a column a measure
    more : methods that the table does not print, shown after its own
    """
    methods = [name for name in (*printed.methods, *more) if name in set(runs["method"])]
    rows = []
    for measure, row in printed.figures.items():
        values = {method: runs.filter(method=method)[measure].drop_nulls() for method in methods}
        cells = {
            m: "; ".join(
                [str(row.get(m))] * (m in row) + [spread(values[m])] * (len(values[m]) > 0)
            )
            for m in methods
        }
        rows.append({"published; obtained": measure, **cells})
    return table(rows)


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
) -> alt.TopLevelMixin:
    """Return a line for each value of `by`, with its own colour and dashes.

    Several rows at one x are drawn as their mean, in a band that is its 95 % interval.

    Parameters
    ----------
    shape : of a line between points: ``"step-after"`` where nothing changes before the next
    """
    scales = [alt.Scale(type="log" if is_log else "linear", zero=False) for is_log in log]
    dashes = [[1, 0], [6, 3], [2, 2], [8, 3, 2, 3], [12, 4], [4, 6], [1, 4]]
    means = frame.group_by(x, by, maintain_order=True).agg(
        pl.col(y).mean(), n=pl.len(), error=pl.col(y).std() / pl.len().sqrt()
    )
    width = stats.t.ppf((1 + LEVEL) / 2, np.maximum(means["n"].to_numpy() - 1, 1))
    half = pl.Series(width) * means["error"].fill_null(0.0)
    means = means.with_columns(low=pl.col(y) - half, high=pl.col(y) + half)
    colour = alt.Color(by, type="nominal", title=None, sort=list(order)).scale(
        domain=list(order), range=COLOURS[: len(order)]
    )
    across = alt.X(x, type="quantitative", title=titles[0], scale=scales[0])
    line = (
        alt.Chart(means)
        .mark_line(point=alt.OverlayMarkDef(size=12), interpolate=shape)
        .encode(
            x=across,
            y=alt.Y(y, type="quantitative", title=titles[1], scale=scales[1]),
            color=colour,
            strokeDash=alt.StrokeDash(by, type="nominal", title=None, sort=list(order)).scale(
                domain=list(order), range=dashes[: len(order)]
            ),
        )
        .properties(width=340, height=230)
    )
    if means["n"].max() == 1:
        return line
    band = (
        alt.Chart(means)
        .mark_area(opacity=0.2, interpolate=shape)
        .encode(x=across, y=alt.Y("low:Q", scale=scales[1]), y2="high:Q", color=colour)
    )
    return alt.layer(band, line)


def written(page: str, order: Sequence[str], part: str, blocks: Iterable[str]) -> str:
    """Return the parts of the page with one written anew, all in their order.

    Parameters
    ----------
    page : as it is; empty at first
    order : names of all parts
    part : name of the one that was run
    blocks : of markdown
    """
    kept = dict(re.findall(r"<!-- part (\w+) -->\n(.*?)<!-- end -->\n", page, re.DOTALL))
    kept[part] = "\n\n".join(blocks) + "\n"
    done = {name: kept[name] for name in order if name in kept}
    return "\n".join(f"<!-- part {name} -->\n{text}<!-- end -->\n" for name, text in done.items())


def head(claims: pl.DataFrame, seconds: float, missing: Sequence[str]) -> str:
    """Return the head of the page: its duration, counts of verdicts, and missing parts."""
    counts = {
        row.pop("paper"): row for row in counted(claims, "paper").drop("data sets").to_dicts()
    }
    rows = [{"paper": name, "claims that": says} | counts[name]
            for name, says in SAYS.items() if name in counts]  # fmt: skip
    blocks = [HEAD.format(minutes=f"{max(1, round(seconds / 60))} minutes"), table(rows), ""]
    if missing:
        blocks += [prose(f"Parts that this page does not have yet: {', '.join(missing)}."), ""]
    return "\n".join([*blocks, ""])
