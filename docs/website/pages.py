"""Which files of the repository are pages of the site, and where their links lead.

A page stands once, where readers of the repository look for it: its links are those of the
repository. Here they become those of the site, or of the repository on the web where they
name what is no page.
"""

import posixpath
import re
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parents[2]
#: Pages and pictures outside of docs/, which is the root of the site.
BESIDE = ("bench/*.md", "bench/*.svg")
#: The same of the repository's first folder; its README is the page about the repository.
FIRST = ("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")
LINK = re.compile(r"(\]\()([^)#\s:]+)((?:#[^)\s]*)?\))")
FENCE = re.compile(r"^ *(```+|~~~+)")


def beside() -> list[str]:
    """Return the paths in the repository of what is in the site and not in docs/."""
    found = [path for pattern in BESIDE for path in ROOT.glob(pattern)]
    return [*sorted(path.relative_to(ROOT).as_posix() for path in found), *FIRST]


def repository_path(page: str) -> str:
    """Return where the source of a page lies in the repository."""
    return page if page in beside() else f"docs/{page}"


def site_path(path: str) -> str | None:
    """Return where a file of the repository lies in the site, None if it is not there."""
    if path.startswith("docs/") and (ROOT / path).is_file():
        return path.removeprefix("docs/")
    if path == "README.md":
        return "index.md"
    return path if path in beside() else None


def outside_fences(markdown: str, change: Callable[[str], str]) -> str:
    """Return a text whose lines are changed, but for those of code."""
    lines, fence = [], ""
    for line in markdown.split("\n"):
        found = FENCE.match(line)
        if found and not fence:
            fence = found[1]
        elif found and line.strip() == fence:
            fence = ""
        lines.append(line if fence or found else change(line))
    return "\n".join(lines)


def with_links_of_the_site(markdown: str, page: str, repository: str) -> str:
    """Return a page whose links lead to pages of the site.

    Parameters
    ----------
    page : where it lies in the site
    repository : address of the repository on the web, for files that are no pages
    """
    folder = posixpath.dirname(repository_path(page))

    def led(match: re.Match[str]) -> str:
        path = posixpath.normpath(posixpath.join(folder, match[2]))
        there = site_path(path)
        if there is not None:
            address = posixpath.relpath(there, posixpath.dirname(page) or ".")
        elif (ROOT / path).exists():
            address = f"{repository}/blob/main/{path}"
        else:  # mkdocs reports what it does not find
            address = match[2]
        return match[1] + address + match[3]

    return outside_fences(markdown, lambda line: LINK.sub(led, line))


def with_prompts_told(markdown: str) -> str:
    """Return a page whose Python sessions are marked as such, for their colours."""
    return re.sub(r"^```python\n(?=>>> )", "```pycon\n", markdown, flags=re.MULTILINE)


def with_drawings(html: str, page: str) -> str:
    """Return a page with its SVG pictures in it, so that they have the colours of its text."""

    def drawn(match: re.Match[str]) -> str:
        path = posixpath.normpath(posixpath.join(posixpath.dirname(page), match[1]))
        file = ROOT / repository_path(path)
        if not file.exists():  # mkdocs reports what it does not find
            return match[0]
        alt = re.search(r'alt="([^"]*)"', match[0])
        svg = re.sub(r"<\?xml.*?\?>|<!DOCTYPE.*?>", "", file.read_text(encoding="utf-8"))
        # Names within a picture are those of no other picture on the page.
        svg = re.sub(r"(id=\"|url\(#|href=\"#)(?=\w)", rf"\g<1>{file.stem}-", svg)
        return f'<span class="drawing" role="img" aria-label="{alt[1] if alt else ""}">{svg}</span>'

    return re.sub(r'<img[^>]* src="([^":]+\.svg)"[^>]*>', drawn, html)
