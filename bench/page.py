"""Measure subjects one by one on an idle machine, and write the page of their tables."""

import json
import os
import platform
import subprocess
import sys
import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from types import ModuleType

import duckdb
import idle
import numpy as np
import polars as pl
from rows import HEADER, Row

#: Most measurements of a subject that other processes disturb.
TRIES = 3


@dataclass(frozen=True)
class Section:
    """A subject's table, and the share of other processes before it and meanwhile."""

    title: str
    lead: str
    lines: list[str]
    before: float
    meanwhile: float


def main(
    subjects: Mapping[str, ModuleType], names: Iterable[str], path: Path, finished: Path
) -> None:
    """Measure all and write the page; with names, only print the parts of these names.

    `finished` keeps the sections of a run that ends early; the next run of the same commit on the
    same machine goes on after them.
    """
    selected = set(names)
    parts = {title: [p.__name__ for p in subject.PARTS] for title, subject in subjects.items()}
    if unknown := selected - {*parts, *(name for names in parts.values() for name in names)}:
        sys.exit(f"there is no part {sorted(unknown)}; there is {parts}")
    sections = [] if selected else _finished(finished)
    done = {section.title for section in sections}
    for title, subject in subjects.items():
        chosen = [p for p in subject.PARTS if not selected or {title, p.__name__} & selected]
        if not chosen or title in done:
            continue
        lead = (subject.__doc__ or "").splitlines()[0]
        for tries_left in reversed(range(1 if selected else TRIES)):
            before = idle.settled(1 if selected else idle.PATIENCE)
            _judge(before, f"before {title!r}", bool(selected), path)
            print(f"\n## {title}\n\n{HEADER}", flush=True)
            since = idle.reading()
            lines = _measured(chosen)
            meanwhile = idle.foreign_share(since, idle.reading())
            if meanwhile <= idle.LIMIT or not tries_left:
                break
            print(f"{_taken(meanwhile)} during {title!r}: it is measured again", flush=True)
        _judge(meanwhile, f"during {title!r}", bool(selected), path)
        sections.append(Section(title, lead, lines, before, meanwhile))
        if not selected:
            kept = [asdict(section) for section in sections]
            finished.write_text(json.dumps({"of": version(), "sections": kept}))
    if not selected:
        path.write_text(written(sections))
        finished.unlink()


def _finished(path: Path) -> list[Section]:
    """Read the sections of a run that ended early, if it measured the same."""
    kept = json.loads(path.read_text()) if path.exists() else {}
    same = kept.get("of") == version()
    return [Section(**each) for each in kept["sections"]] if same else []


def version() -> str:
    """Describe what is measured: the commit, the changes since, and the machine."""
    commands = ["git", "rev-parse", "HEAD"], ["git", "diff", "HEAD"]
    folder = Path(__file__).parent
    texts = [
        subprocess.run(command, cwd=folder, check=False, capture_output=True, text=True).stdout
        for command in commands
    ]
    return f"{zlib.crc32(''.join(texts).encode()):08x}; {machine()}"


def _measured(parts: Iterable[Callable[[], Iterable[Row]]]) -> list[str]:
    """Measure the parts of a subject, and print the lines of their rows as they come."""
    lines = []
    for part in parts:
        for row in part():
            lines.append(row.line())
            print(lines[-1], flush=True)
    return lines


def _judge(share: float, when: str, is_print: bool, path: Path) -> None:
    """Warn of a busy machine, or end before its figures are kept."""
    if share > idle.LIMIT:
        message = f"{_taken(share)} {when}, more than {_percent(idle.LIMIT)}"
        if not is_print:
            sys.exit(f"{message}: {path.name} is not written")
        print(f"warning: {message}: these figures say little", file=sys.stderr, flush=True)


def written(sections: list[Section]) -> str:
    """Return the page: how it was measured, and a table for each subject."""
    first = sections[0].before
    before = max(section.before for section in sections)
    meanwhile = max(section.meanwhile for section in sections)
    blocks = [
        "# Measurements",
        f"`make bench` on {machine()}",
        f"{_taken(first)} at first, at most {_percent(before)} before a table and "
        f"{_percent(meanwhile)} while one was measured; beyond {_percent(idle.LIMIT)} this page "
        "is not written.",
        "A ratio is what was measured divided by its base, both of one run: less is better. Times "
        "are medians of five where they are short, alternatives in turns. Parquet is "
        "uncompressed and in the page cache.",
    ]
    for section in sections:
        table = "\n".join([HEADER, *section.lines])
        blocks += [f"## {section.title}", section.lead, table]
    return "\n\n".join(blocks) + "\n"


def _taken(share: float) -> str:
    return f"Other processes took {_percent(share)} of {os.cpu_count()} cores"


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def machine() -> str:
    """Describe the machine and the versions."""
    cpu = next(
        (line.split(":")[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines()
         if line.startswith("model name")),
        platform.processor(),
    )  # fmt: skip
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return (
        f"{cpu}, {os.cpu_count()} cores, {memory:.0f} GiB; Python {platform.python_version()}, "
        f"DuckDB {duckdb.__version__}, Polars {pl.__version__}, NumPy {np.__version__}."
    )
