"""The reference of Python: a page for every public name, made from its docstring."""

import ast
import html
import inspect
import re
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import is_dataclass
from functools import cache, cached_property
from types import ModuleType
from typing import Any

import polars as pl
from pages import ROOT

import dbselect as ds
from dbselect import sklearn

#: The part of the reference -> the rooms and modules whose names it has; rooms come first.
PARTS = {
    "Problems and methods": ("dbselect.problem", "dbselect.methods"),
    "Tables and Grams": ("io.", "dbselect.sources", "dbselect.record"),
    "Results": ("results.", "dbselect.results"),
    "Validation": ("dbselect.validation",),
    "Families": ("families.",),
    "Objectives": ("objectives.",),
    "Building blocks": ("reference.",),
    "Stores": ("dbselect.store",),
    "scikit-learn": ("sklearn.",),
    "Doors": ("dbselect.doors",),
    "Errors and warnings": ("errors.", "dbselect.errors"),
}
#: Modules of public names, by which these are reached: `ds.results.Sequence`.
ROOMS = ("errors", "families", "io", "objectives", "reference", "results")
#: A line that is longer is broken, a parameter a line.
WIDTH = 80
HEAD = re.compile(r"^(\*{0,2}\w+(?:, \w+)*) : (.*)$")
#: Classes whose methods are calls that have pages of their own.
OWNERS = ("Problem", "LazyFrame.dbselect")
CODE = re.compile(r"``([^`]+)``|`([^`]+)`")


@cache
def public() -> dict[str, Any]:
    """Return what users call, by how it is reached from `ds`."""
    first = {name: getattr(ds, name) for name in ds.__all__ if name not in ROOMS}
    return (
        first
        | {
            f"{room}.{name}": thing
            for room in ROOMS
            for name, thing in _names(getattr(ds, room))
            if name not in first
        }
        | {f"sklearn.{name}": getattr(sklearn, name) for name in sklearn.__all__}
        | {
            "LazyFrame.dbselect": type(pl.LazyFrame().dbselect),  # type: ignore[attr-defined]
            "Expr.dbselect": type(pl.col("x").dbselect),  # type: ignore[attr-defined]
        }
    )


def _names(room: ModuleType) -> Iterator[tuple[str, Any]]:
    """Yield the public names of a module; that of errors has no list."""
    listed_there = getattr(room, "__all__", None)
    for name in listed_there or vars(room):
        thing = getattr(room, name)
        if listed_there or is_error(thing):
            yield name, thing


@cache
def known() -> dict[str, str]:
    """Return how a name without its room is reached; no two rooms have the same."""
    short = {name.rpartition(".")[2]: name for name in public() if name.startswith(ROOMS)}
    return short | {name: name for name in public()}


def is_error(thing: Any) -> bool:
    """Return whether a name is an error or a warning: they share a page."""
    return isinstance(thing, type) and issubclass(thing, Exception)


def page_of(name: str) -> str:
    """Return the page of a public name; classes have a folder, as Gram and gram are two."""
    thing = public()[name]
    if is_error(thing):
        return "api/errors.md"
    return f"api/{'classes' if inspect.isclass(thing) else 'calls'}/{name}.md"


def parts() -> dict[str, list[str]]:
    """Return the public names of each part, functions first."""
    filed: dict[str, list[str]] = {part: [] for part in PARTS}
    for name, thing in public().items():
        of_rooms = [part for part, at in PARTS.items() if name.startswith(at)]
        of_modules = [part for part, at in PARTS.items() if thing.__module__.startswith(at)]
        filed[[*of_rooms, *of_modules][0]].append(name)
    for names in filed.values():
        names.sort(key=lambda name: (inspect.isclass(public()[name]), name.lower()))
    return filed


def sections(text: str) -> dict[str, str]:
    """Return the sections of a numpydoc text; what stands before them is ``""``."""
    pieces = re.split(r"^(\w[\w ]*)\n-{3,}\n", text, flags=re.MULTILINE)
    return {"": pieces[0].strip()} | {
        title: body.strip("\n") for title, body in zip(pieces[1::2], pieces[2::2], strict=True)
    }


def linked(name: str, page: str, shown: str) -> str:
    """Return a name as code that leads to its page."""
    depth = page.count("/")
    target = page_of(name).removesuffix(".md") + ".html"
    anchor = f"#{name.rpartition('.')[2]}" if is_error(public()[name]) else ""
    return f'<a href="{"../" * depth}{target}{anchor}"><code>{shown}</code></a>'


def told(text: str, page: str) -> str:
    """Return prose as HTML: code as code, and public names as links."""

    def code(match: re.Match[str]) -> str:
        shown = html.escape(match[1] or match[2], quote=False)
        name = known().get(shown.removeprefix("dbselect."))
        leads = match[2] and name is not None and page_of(name) != page
        return linked(name, page, shown) if leads else f"<code>{shown}</code>"

    pieces, end = [], 0
    for match in CODE.finditer(text):
        pieces += [html.escape(text[end : match.start()], quote=False), code(match)]
        end = match.end()
    return "".join([*pieces, html.escape(text[end:], quote=False)])


def paragraphs(text: str, page: str) -> Iterator[str]:
    """Yield the paragraphs of a prose text; what is indented is kept as it stands."""
    for block in re.split(r"\n\s*\n", text):
        if block.startswith("    "):
            yield f"<pre>{html.escape(textwrap.dedent(block), quote=False)}</pre>"
        elif block.strip():
            yield f"<p>{told(' '.join(block.split()), page)}</p>"


def defaults(thing: Any) -> dict[str, str]:
    """Return what parameters are if they are left out."""
    try:
        parameters = inspect.signature(thing).parameters.values()
    except (TypeError, ValueError):
        return {}
    return {
        one.name: repr(one.default)
        for one in parameters
        if one.default is not one.empty and "<" not in repr(one.default)
    }


def listed(body: str, page: str, left_out: dict[str, str]) -> Iterator[str]:
    """Yield the items of a section as a list of definitions, other text as paragraphs."""
    entries: list[tuple[str, list[str]]] = []
    for line in body.split("\n"):
        head = HEAD.match(line)
        if head:
            entries.append((head[1], [head[2]]))
        elif entries:
            entries[-1][1].append(line)
        else:
            yield from paragraphs(body, page)
            return
    yield "<dl>"
    for names, lines in entries:
        terms = ", ".join(_term(name, page, left_out) for name in names.split(", "))
        yield f"<dt>{terms}</dt><dd>{told(' '.join(' '.join(lines).split()), page)}</dd>"
    yield "</dl>"


def _term(name: str, page: str, left_out: dict[str, str]) -> str:
    there = known().get(name)
    leads = there is not None and is_error(public()[there])
    code = linked(there, page, name) if leads else f"<code>{name}</code>"
    default = left_out.get(name)
    return f'{code} <span class="default">= {html.escape(default)}</span>' if default else code


def signature(name: str, function: Callable[..., Any]) -> str:
    """Return a call with its parameters, and their types where the source has them."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    (node,) = (one for one in tree.body if isinstance(one, ast.FunctionDef))
    every = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
    types = {one.arg: one.annotation for one in [*every, node.args.vararg] if one is not None}
    shown = list(_parameters(inspect.signature(function), types))
    back = f" -> {_type(node.returns)}" if node.returns else ""
    line = f"{name}({', '.join(shown)}){back}"
    if len(line) <= WIDTH:
        return line
    return f"{name}(\n" + "".join(f"    {one},\n" for one in shown) + f"){back}"


def _parameters(called: inspect.Signature, types: Mapping[str, Any]) -> Iterator[str]:
    """Yield the parameters of a call: those of its options, where it takes these by name."""
    has_star = False
    for name, one in called.parameters.items():
        if name in ("self", "cls", "problem"):  # a method of a problem has it for its self
            continue
        if one.kind is one.KEYWORD_ONLY and not has_star:
            yield "*"
        has_star |= one.kind in (one.KEYWORD_ONLY, one.VAR_POSITIONAL)
        stars = {one.VAR_POSITIONAL: "*", one.VAR_KEYWORD: "**"}.get(one.kind, "")
        annotation = types.get(name)
        told_type = f": {_type(annotation)}" if annotation is not None else ""
        default = "" if one.default is one.empty else f" = {one.default!r}"
        yield stars + name + told_type + ("" if "<" in default else default)


def _type(annotation: ast.expr) -> str:
    name = ast.unparse(annotation).replace("'", "").replace('"', "")
    # What modules call it beside Python's.
    return re.sub(r"(Anytime|Linear)Sequence", "Sequence", name)


def documented(
    text: str,
    page: str,
    left_out: dict[str, str],
    pictures: Iterable[str] = (),
    titles: Mapping[str, str] = {},
) -> Iterator[str]:
    """Yield the Markdown of a docstring, with its pictures after its example.

    Parameters
    ----------
    left_out : what parameters are if they are left out
    titles : sections that have another title than in the docstring
    """
    found = sections(text)
    yield "\n".join(paragraphs(found.pop(""), page))
    examples = found.pop("Examples", None)
    if examples:
        yield f"```pycon\n{examples.strip()}\n```"
    yield from pictures
    for title, body in found.items():
        yield f'<p class="section">{titles.get(title, title)}</p>'
        yield "\n".join(listed(body, page, left_out))


def members(owner: type) -> Iterator[tuple[str, Any]]:
    """Yield the public methods and properties of a class, its own before those of its bases."""
    seen = set()
    for base in owner.__mro__:
        if not base.__module__.startswith("dbselect"):
            continue
        for name, thing in vars(base).items():
            if name.startswith("_") or name in seen:
                continue
            is_called = inspect.isfunction(thing) or isinstance(thing, classmethod | staticmethod)
            if is_called or isinstance(thing, property | cached_property):
                seen.add(name)
                yield name, getattr(thing, "__func__", thing)


def member(owner: str, name: str, thing: Any, page: str) -> Iterator[str]:
    """Yield the Markdown of a method or property."""
    is_called = inspect.isfunction(thing)
    alone = known().get(name, "")
    if is_called and owner in OWNERS and inspect.isfunction(public().get(alone)):
        # The call of one line has the page; here is what is the problem's, or the frame's, own.
        yield f"### {name}() {{#{name}}}"
        yield f"```python\n{signature(name, thing)}\n```"
        yield f"<p>{told(_summary(alone), page)} {linked(alone, page, f'ds.{alone}')}</p>"
        return
    yield f"### {name}{'()' if is_called else ''} {{#{name}}}"
    if is_called:
        yield f"```python\n{signature(name, thing)}\n```"
    yield from documented(inspect.getdoc(thing) or "", page, defaults(thing) if is_called else {})


def shown_in(name: str, pages: dict[str, str], page: str) -> Iterator[str]:
    """Yield the pages whose examples call a name."""
    name = re.escape(name)
    called = re.compile(rf"^(?:>>>|\.\.\.) .*\bds\.{name}\b|^.*= ds\.{name}\(", re.MULTILINE)
    found = [path for path, text in pages.items() if called.search(text)]
    if found:
        depth = page.count("/")
        links = ", ".join(
            f"[{re.search(r'^# (.*)$', pages[path], re.MULTILINE)[1]}]({'../' * depth}{path})"
            for path in found
        )
        yield f"On real data in: {links}."


def reference(pages: dict[str, str]) -> dict[str, str]:
    """Return the pages of the reference, as Markdown.

    Parameters
    ----------
    pages : the other pages, by where they lie in the site
    """
    made = {"api/index.md": _index()}
    for names in parts().values():
        for name in names:
            thing, page = public()[name], page_of(name)
            if is_error(thing):
                continue
            text = [f"# {_title(name)}", *_body(name, thing, page)]
            made[page] = "\n\n".join([*text, *shown_in(name, pages, page)]) + "\n"
    made["api/errors.md"] = _errors()
    return made


def _title(name: str) -> str:
    """Return how a name is reached."""
    if name.startswith("sklearn."):
        return f"dbselect.{name}"
    return name if name.endswith(".dbselect") else f"ds.{name}"


def _body(name: str, thing: Any, page: str) -> Iterator[str]:
    if inspect.isclass(thing):
        # Results are made by calls: what they are made of is what they hold.
        is_result = is_dataclass(thing) and not name.startswith("sklearn.")
        titles = {"Parameters": "Fields"} if is_result else {}
        yield from documented(
            inspect.getdoc(thing), page, defaults(thing), _picture(name, page), titles
        )
        if issubclass(thing, ds.families.Family) and thing is not ds.families.Family:
            yield f"Links, the default first: {', '.join(f'`{one}`' for one in thing.links)}."
        found = list(members(thing))
        if found:
            yield "## Methods and properties"
        for one, function in found:
            yield from member(name, one, function, page)
        return
    called = signature(f"ds.{name}", thing)
    yield f"```python\n{called}\n```"
    returned = re.findall(r"\w+", called.rpartition("->")[2])
    pictures = next(filter(None, (_picture(one, page) for one in returned)), [])
    yield from documented(inspect.getdoc(thing), page, defaults(thing), pictures)


def _picture(name: str, page: str) -> list[str]:
    """Return what a class of results draws, if it is drawn."""
    short = name.rpartition(".")[2]
    drawing = f"guides/pictures/{short}.svg"
    if not (ROOT / "docs" / drawing).exists():
        return []
    return [f"![What a {short} draws]({'../' * page.count('/')}{drawing})"]


def _summary(name: str) -> str:
    return sections(inspect.getdoc(public()[name]))[""].split("\n\n")[0]


def _index() -> str:
    text = ["# Python reference", "Everything is reached from `import dbselect as ds`."]
    for part, names in parts().items():
        text.append(f"## {part}")
        rows = [
            f"<tr><td>{linked(name, 'api/index.md', name)}</td>"
            f"<td>{told(_summary(name), 'api/index.md')}</td></tr>"
            for name in names
        ]
        text.append("<table><tbody>\n" + "\n".join(rows) + "\n</tbody></table>")
    return "\n\n".join(text) + "\n"


def _errors() -> str:
    page = "api/errors.md"
    text = [
        "# Errors and warnings",
        "An error is one sentence: what is wrong, the value, and what is allowed. Where it can be"
        " known from the arguments it is raised before data are read. All errors are a"
        " `DbselectError`, which is a `ValueError`; warnings go through Python's `warnings`.",
    ]
    for name in parts()["Errors and warnings"]:
        thing = public()[name]
        text += [
            f"## {_title(name)} {{#{name.rpartition('.')[2]}}}",
            "\n".join(paragraphs(inspect.getdoc(thing), page)),
            f"A kind of `{thing.__base__.__name__}`.",
        ]
    return "\n\n".join(text) + "\n"


#: What examples call the results, so that `seq.at` leads to a method.
USUAL = {
    "problem": "Problem", "seq": "Sequence", "model": "Model", "gram": "Gram",
    "store": "GramStore", "cv": "CrossValidation", "plan": "GramPlan", "path": "GroupLassoPath",
    "sums": "KeySums",
}  # fmt: skip


def with_names_linked(page_html: str, page: str) -> str:
    """Return a page in whose prose `ds.name` and `seq.method` lead to the reference."""
    last = "seq"

    def target(code: str) -> str | None:
        nonlocal last
        plain = html.unescape(code).partition("(")[0]
        name = plain.removeprefix("ds.")
        if name in public() and (name != plain or page == "calls.md"):
            return page_of(name)
        if page == "calls.md" and name in known():
            return page_of(known()[name])
        owner, _, member_name = name.rpartition(".")
        # In lists like `seq.at`, `.expr` the name of the sequence is said once.
        last = owner if owner in USUAL else last
        there = known().get(USUAL.get(owner or last, owner), "") if "." in name else ""
        has = inspect.isclass(public().get(there)) and member_name in dict(members(public()[there]))
        return f"{page_of(there)}#{member_name}" if has else None

    def linked_code(match: re.Match[str]) -> str:
        path = None if match[1] else target(match[2])
        if path is None:
            return match[0]
        address = "../" * page.count("/") + path.replace(".md", ".html")
        return f'<a href="{address}"><code>{match[2]}</code></a>'

    return re.sub(
        r"(<pre.*?</pre>|<a .*?</a>|<h\d.*?</h\d>)|<code>([^<]*)</code>",
        linked_code,
        page_html,
        flags=re.DOTALL,
    )
