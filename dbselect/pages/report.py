"""A report as one self-contained HTML page: no other file, no network, no library."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from importlib import resources
from typing import Any

import polars as pl

from dbselect.pages.html import cell_text

#: Content security policy: no requests; style and script are part of the page.
POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src 'unsafe-inline'"
#: Addition to the policy for a page with the compiled search.
WASM = " 'wasm-unsafe-eval'"
#: Significant digits of numbers in tables.
DIGITS = 3


@dataclass(frozen=True, eq=False)
class Section:
    """A part of a report."""

    title: str  # its heading
    paragraphs: Sequence[str] = ()  # sentences, as text
    # input of `chart.js`: kind "points", "line" or "bars"; x and y of shape (n,), for bars n + 1
    # edges in x; titles of both axes; words for screen readers
    charts: Sequence[dict[str, Any]] = ()
    table: pl.DataFrame | None = None  # a table with sortable columns; None for no table
    curves: Sequence[str] = ()  # a small SVG curve for each row of the table
    # language -> code to copy; the id of its element is the language in lower case
    code: dict[str, str] = field(default_factory=dict)

    def html(self) -> str:
        """Return the section as HTML."""
        parts = [f"<section><h2>{escape(self.title)}</h2>"]
        parts += [f"<p>{escape(text)}</p>" for text in self.paragraphs]
        charts = (escape(json.dumps(chart)) for chart in self.charts)
        parts += [f'<div class="plot" data-chart="{chart}"></div>' for chart in charts]
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

    `data` is the input of `report.js`; `refused` says why costs cannot be edited yet, or at all.
    """
    extra = ["of"] if data["responses"] else []
    words, numbers = ["term", "group"], ["coefficient", "standard error", "p"]
    heads = [(text, False) for text in words] + [("cost of the group", True)]
    heads += [(text, False) for text in extra] + [(number, True) for number in numbers]
    return _file("report.html").format(
        policy=POLICY + (WASM if module else ""),
        title=escape(title),
        style=_file("report.css"),
        question="".join(f"<p>{escape(text)}</p>" for text in question),
        unit=escape(f", in {data['unit']}" if data["unit"] else ""),
        refused=escape(refused),
        height=escape(data["height"]),
        heads="".join(f'<th scope="col"{_kind(number)}>{head}</th>' for head, number in heads),
        sections="".join(section.html() for section in sections),
        # Text of a table may contain the closing tag of a script.
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
