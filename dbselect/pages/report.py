"""A report as one page that needs nothing else: no file beside it, no network, no library.

The page has a content security policy that makes browsers refuse any request. Where it holds the
compiled search, scripts may compile WebAssembly, and still no text.
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
POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src 'unsafe-inline'"
#: What a page with the compiled search may do beside.
WASM = " 'wasm-unsafe-eval'"
#: Significant digits of numbers in tables.
DIGITS = 3


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
    code : language -> text to copy; its element is called by the language in small letters
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
            name = language.split(" ")[0].lower()
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
    """Return the page.

    Parameters
    ----------
    title : of the page
    question : what was asked, in sentences
    data : what `report.js` shows
    sections : what follows the slider
    refused : why costs cannot be edited, until the module runs
    module : the compiled search in base64; empty without it
    """
    several = ["of"] if data["responses"] else []
    texts, numbers = ["term", "group"], ["coefficient", "standard error", "p"]
    heads = [(text, False) for text in texts] + [("cost of the group", True)]
    heads += [(text, False) for text in several] + [(number, True) for number in numbers]
    return _PAGE.format(
        policy=POLICY + (WASM if module else ""),
        title=escape(title),
        style=_file("report.css"),
        question="".join(f"<p>{escape(text)}</p>" for text in question),
        unit=escape(f", in {data['unit']}" if data["unit"] else ""),
        refused=escape(refused),
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
<label for="slider">Budget, up to <span id="most"></span></label>
<input id="slider" type="range" min="0" max="1000" step="any">
<label for="budget">exactly</label>
<input id="budget" type="number" min="0" step="any">
</div>
<dl aria-live="polite">
<dt>step</dt><dd id="step"></dd>
<dt>spent</dt><dd id="spent"></dd>
<dt>groups</dt><dd id="groups"></dd>
<dt>r2, fitted rows</dt><dd id="r2"></dd>
<dt>r2, held-out rows</dt><dd id="held"></dd>
<dt>next to buy</dt><dd id="next"></dd>
<div id="better-row" hidden><dt>better set</dt><dd id="better"></dd></div>
</dl>
<div id="chart"></div>
</section>
<section aria-labelledby="if">
<h2 id="if">What if?</h2>
<p id="refused">{refused}</p>
<form id="what-if" hidden>
<p>Edit a cost, require or exclude a group, or change the search: the page answers at once, offline.</p>
<div class="control">
<label>Rule <select id="rule"></select></label>
<label>Ridge <input id="ridge" type="number" min="0" step="any"></label>
<label><input id="within" type="checkbox"> skip groups that no longer fit the budget</label>
<button id="reset" type="button">Reset</button>
</div>
<p id="state" role="status">As in the report.</p>
<p id="refusal" role="alert"></p>
<div class="scroll" tabindex="0"><table><thead><tr><th scope="col">group</th>
<th scope="col">cost{unit}</th><th scope="col">use</th></tr></thead><tbody id="uses"></tbody></table>
</div>
</form>
</section>
<section aria-labelledby="model-head">
<h2 id="model-head">The model</h2>
<p class="note" id="certainty"></p>
<p id="left-out" hidden>The coefficients of this step are left out to keep the page small;
<code>seq.at(budget)</code> has them.</p>
<div class="scroll" tabindex="0"><table><thead><tr>{heads}</tr></thead>
<tbody id="model"></tbody></table></div>
</section>
{sections}
</main>
<noscript><p>The curve and the slider need the script within this page.</p></noscript>
<script type="application/json" id="data">{data}</script>
{module}
<script>{script}</script>
</body>
</html>
"""
