"""What mkdocs asks while it builds the site: which pages there are, in which order, with what."""

from pathlib import Path
from runpy import run_path
from typing import Any

import pages
import python_reference
import sql_reference
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

#: The part of the site to which pages are added that the navigation does not name yet.
LATER = "Guides"
#: Stands in the navigation for the pages of Python's reference.
PYTHON = "api"


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that lie beside docs/ and those that are made, and order them all."""
    for path in pages.beside():
        files.append(File.generated(config, path, abs_src_path=str(pages.ROOT / path)))
    written = {
        file.src_uri: Path(file.abs_src_path).read_text(encoding="utf-8")
        for file in files.documentation_pages()
    }
    made = python_reference.reference(written) | {"sql-reference.md": sql_reference.reference()}
    for path, text in made.items():
        files.append(File.generated(config, path, content=text))
    config.nav = existing(config.nav, set(written) | set(made))
    named = set(_named(config.nav))
    guides = next(part[LATER] for part in config.nav if LATER in part)
    guides += sorted(path for path in written if path not in named)
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, **_: Any) -> str:
    """Have links lead within the site."""
    if page.file.src_uri.startswith("api/"):
        return markdown
    text = pages.with_prompts_told(markdown)
    return pages.with_links_of_the_site(text, page.file.src_uri, config.repo_url)


def on_page_content(html: str, page: Page, **_: Any) -> str:
    """Put drawings into the page, whose colours they take, and lead names to the reference."""
    html = pages.with_drawings(html, page.file.src_uri)
    if page.file.src_uri.startswith("api/"):
        return html
    return python_reference.with_names_linked(html, page.file.src_uri)


def on_post_build(config: MkDocsConfig) -> None:
    """Write the report that the first page shows, which searches in the reader's browser."""
    example = run_path(str(pages.ROOT / "examples" / "heart.py"))
    example["report"](Path(config.site_dir) / "assets" / "heart.html")


def existing(entries: list[Any], paths: set[str]) -> list[Any]:
    """Return the navigation without pages that are not there yet."""
    kept: list[Any] = []
    for entry in entries:
        ((title, what),) = entry.items() if isinstance(entry, dict) else (("", entry),)
        if what == PYTHON:
            parts = python_reference.parts().items()
            kept.append({title: [f"{PYTHON}/index.md", *({part: _pages(n)} for part, n in parts)]})
        elif isinstance(what, list):
            kept.append({title: existing(what, paths)})
        elif what in paths:
            kept.append(entry)
    return kept


def _pages(names: list[str]) -> list[dict[str, str]]:
    """Return the entries of a part of Python's reference; errors share a page."""
    each = {python_reference.page_of(name): name for name in names}
    return [{"All of them" if path.endswith("errors.md") else n: path} for path, n in each.items()]


def _named(entries: list[Any]) -> list[str]:
    """Return all pages of a navigation."""
    found: list[str] = []
    for entry in entries:
        what = next(iter(entry.values())) if isinstance(entry, dict) else entry
        found += _named(what) if isinstance(what, list) else [what]
    return found
