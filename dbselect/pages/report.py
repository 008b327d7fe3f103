"""A report as one page that needs nothing else: no file beside it, no network, no library."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from importlib import resources
from typing import Any

import polars as pl

from dbselect.pages.html import cell_text

#: No requests are allowed; style and script are part of the page.
POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src 'unsafe-inline'"
#: What a page with the compiled search may do beside.
WASM = " 'wasm-unsafe-eval'"
#: Significant digits of numbers in tables.
DIGITS = 3


@dataclass(frozen=True, eq=False)
class Section:
    """A part of a report."""

    title: str  # its heading
    paragraphs: Sequence[str] = ()  # sentences, as text
    # what `chart.js` draws: kind "points", "line" or "bars", x and y of shape (n,), of bars n + 1
    # edges in x; titles of both axes; words for screen readers
    charts: Sequence[dict[str, Any]] = ()
    table: pl.DataFrame | None = None  # rows that can be sorted by each column; None for no table
    curves: Sequence[str] = ()  # beside each row of the table a small curve, SVG
    # language -> text to copy; its element is called by the language in small letters
    code: dict[str, str] = field(default_factory=dict)

    def html(self) -> str:
        """Return the section as HTML."""
        parts = [f"<section><h2>{escape(self.title)}</h2>"]
        parts += [f"<p>{escape(text)}</p>" for text in self.paragraphs]
        charts = (escape(json.dumps(one)) for one in self.charts)
        parts += [f'<div class="plot" data-chart="{one}"></div>' for one in charts]
        if self.table is not None:
            parts.append(_sortable(self.table, self.curves))
        for language, text in self.code.items():
            name = language.partition(" ")[0].strip(",").lower()
            code = f'<pre><code id="{name}">{escape(text)}</code></pre>'
            parts.append(f"<div><h3>{escape(language)}</h3>{code}</div>")
        return "".join([*parts, "</section>"])


def page(
    title: str,
    question: Sequence[str],
    data: dict[str, Any],
    sections: Sequence[Section],
    refused: str,
    module: str,
) -> str:
    """Return the page; `module` is the compiled search in base64, empty without it.

    `data` is what `report.js` shows; `refused` says why costs are fixed until the module runs.
    """
    several = ["of"] if data["responses"] else []
    texts, numbers = ["term", "group"], ["coefficient", "standard error", "p"]
    heads = [(text, False) for text in texts] + [("cost of the group", True)]
    heads += [(text, False) for text in several] + [(number, True) for number in numbers]
    return _file("report.html").format(
        policy=POLICY + (WASM if module else ""),
        title=escape(title),
        style=_file("report.css"),
        question="".join(f"<p>{escape(text)}</p>" for text in question),
        unit=escape(f", in {data['unit']}" if data["unit"] else ""),
        refused=escape(refused),
        height=escape(data["height"]),
        heads="".join(f'<th scope="col"{_kind(number)}>{head}</th>' for head, number in heads),
        sections="".join(one.html() for one in sections),
        # Text of a table may hold the end of a script.
        data=json.dumps(data, separators=(",", ":")).replace("<", "\\u003c"),
        module=f'<script type="text/plain" id="module">{module}</script>' if module else "",
        script="\n".join(map(_file, ["search.js", "chart.js", "report.js"])),
    )


def _file(name: str) -> str:
    return resources.files("dbselect.pages").joinpath(name).read_text(encoding="utf-8")


def _sortable(table: pl.DataFrame, curves: Sequence[str]) -> str:
    numbers = [dtype.is_numeric() for dtype in table.dtypes]
    heads = "".join(
        f'<th scope="col"{_kind(number)}><button type="button">{escape(name)}</button></th>'
        for name, number in zip(table.columns, numbers, strict=True)
    )
    lines = []
    for at, row in enumerate(table.rows()):
        cells = "".join(
            f'<td{_kind(number)} data-value="{_key(value)}">{cell_text(value, DIGITS)}</td>'
            for value, number in zip(row, numbers, strict=True)
        )
        lines.append(f"<tr>{cells}{f'<td>{curves[at]}</td>' if curves else ''}</tr>")
    curve = '<th scope="col">curve</th>' if curves else ""
    return (
        f'<div class="scroll" tabindex="0"><table class="sortable"><thead><tr>{heads}{curve}</tr>'
        f"</thead><tbody>{''.join(lines)}</tbody></table></div>"
    )


def _kind(number: bool) -> str:
    return ' class="number"' if number else ""


def _key(value: Any) -> str:
    return "" if value is None else escape(str(value))
