"""A report as one page that needs nothing else: no file beside it, no network, no library.

The page has a content security policy that makes browsers refuse any request.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from importlib import resources
from typing import Any

import polars as pl

from dbselect.pages.html import cell_text

#: No requests are allowed; style and script are part of the page.
POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"


@dataclass(frozen=True, eq=False)
class Section:
    """A part of a report.

    Parameters
    ----------
    title : its heading
    paragraphs : sentences, as text
    charts : SVG
    table : rows that can be sorted by each column; None for no table
    curves : beside each row of the table a small curve, SVG
    code : language -> text to copy
    """

    title: str
    paragraphs: Sequence[str] = ()
    charts: Sequence[str] = ()
    table: pl.DataFrame | None = None
    curves: Sequence[str] = ()
    code: dict[str, str] = field(default_factory=dict)

    def html(self) -> str:
        """Return the section as HTML."""
        parts = [f"<section><h2>{escape(self.title)}</h2>"]
        parts += [f"<p>{escape(text)}</p>" for text in self.paragraphs]
        parts += self.charts
        if self.table is not None:
            parts.append(_sortable(self.table, self.curves))
        for language, text in self.code.items():
            parts.append(f"<h3>{escape(language)}</h3><pre><code>{escape(text)}</code></pre>")
        return "".join([*parts, "</section>"])


def page(
    title: str,
    question: Sequence[str],
    chart: str,
    data: dict[str, Any],
    sections: Sequence[Section],
) -> str:
    """Return the page.

    Parameters
    ----------
    title : of the page
    question : what was asked, in sentences
    chart : SVG of the curves against cost
    data : what the slider shows, as `report.js` reads it
    sections : what follows the slider
    """
    several = ["of"] if data["responses"] else []
    texts, numbers = ["term", "group"], ["coefficient", "standard error", "p"]
    heads = [(text, False) for text in texts] + [("cost of the group", True)]
    heads += [(text, False) for text in several] + [(number, True) for number in numbers]
    return _PAGE.format(
        policy=POLICY,
        title=escape(title),
        style=_file("report.css"),
        question="".join(f"<p>{escape(text)}</p>" for text in question),
        most=f"{data['axis']['most']:.6g}",
        chart=chart,
        height=escape(data["height"]),
        heads="".join(f'<th scope="col"{_kind(number)}>{head}</th>' for head, number in heads),
        certainty=escape(data["certainty"]),
        sections="".join(one.html() for one in sections),
        # Text of a table may hold the end of a script.
        data=json.dumps(data, separators=(",", ":")).replace("<", "\\u003c"),
        script=_file("report.js"),
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
            f'<td{_kind(number)} data-value="{_key(value)}">{cell_text(value)}</td>'
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
    """Return what a row is sorted by."""
    return "" if value is None else escape(str(value))


_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<link rel="icon" href="data:,">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<main>
<h1>{title}</h1>
{question}
<section aria-labelledby="what">
<h2 id="what">What a budget buys</h2>
<div class="control">
<label for="slider">Budget, 0 to {most}</label>
<input id="slider" type="range" min="0" max="1000" step="1" value="1000">
<label for="budget">exactly</label>
<input id="budget" type="number" min="0" step="any" value="{most}">
</div>
<dl aria-live="polite">
<dt>step</dt><dd id="step"></dd>
<dt>spent</dt><dd id="spent"></dd>
<dt>groups</dt><dd id="groups"></dd>
<dt>{height}</dt><dd id="r2"></dd>
<dt>r2, held-out rows</dt><dd id="held"></dd>
<dt>next to buy</dt><dd id="next"></dd>
</dl>
{chart}
<h3>The model</h3>
<p class="note">{certainty}</p>
<p id="left-out" hidden>The coefficients of this step are left out to keep the page small;
<code>seq.at(budget)</code> has them.</p>
<div class="scroll" tabindex="0"><table><thead><tr>{heads}</tr></thead>
<tbody id="model"></tbody></table></div>
</section>
{sections}
</main>
<noscript><p>The slider needs the script within this page.</p></noscript>
<script type="application/json" id="data">{data}</script>
<script>{script}</script>
</body>
</html>
"""
