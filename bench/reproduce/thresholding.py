"""Xiang, Yang, Ye (2014): times of the projection (Figure 3) and of the descents (Figure 4)."""

import time
from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
import polars as pl

import dbselect as ds
from reproduce.page import Study, claims, lines, prose, table

#: Figure 3's first scenario: entries, in 100 groups.
ENTRIES = (1_000, 10_000, 100_000, 1_000_000, 5_000_000)
SHARES = (0.2, 0.4, 0.6)
MILLION = 1_000_000
VARIANTS = ("ista", "ista-l", "fista", "fista-c")
#: Figure 4: rows and columns, the latter in groups of 100.
SHAPES = ((100, 2000), (100, 5000))
STEPS = 100


def seconds(p: int, n_groups: int, s1: int, s2: int) -> float:
    """Return what one projection takes, the best of three."""
    rng = np.random.default_rng(0)
    v, labels = rng.standard_normal(p), np.arange(p) * n_groups // p
    times = []
    for _ in range(3):
        start = time.perf_counter()
        ds.reference.sght_project(v, labels, s1, s2)
        times.append(time.perf_counter() - start)
    return min(times)


def seconds_of(p: int, n_groups: int, share: float) -> float:
    """Return what a projection takes onto five entries in each of a share of the groups."""
    s2 = round(n_groups * share)
    return seconds(p, n_groups, 5 * s2, s2)


def projection(study: Study) -> Iterator[str]:
    """Repeat Figure 3."""
    entries, million = study.of((ENTRIES, MILLION), (ENTRIES[:2], 10_000))
    yield "## SGHT: time of the projection (Xiang et al., Figure 3)"
    yield prose(
        """
        Published: curves, which reach tens of seconds at 5,000,000 entries; their numbers are not
        in the text. Here seconds of `sght_project` on normal entries, the best of three.
        """
    )
    first = pl.DataFrame(
        {
            "entries": p,
            "s2": f"{share:.0%} of groups",
            "seconds": seconds_of(p, 100, share),
        }
        for p in entries
        for share in SHARES
    )
    yield "Scenario 1: 100 groups, s1 = 5 s2."
    yield table(first.pivot("s2", index="entries", values="seconds").to_dicts())
    yield study.picture(
        "sght_projection",
        "Seconds of a projection by entries, both axes logarithmic",
        lines(
            first, "entries", "seconds", "s2", order=[f"{share:.0%} of groups" for share in SHARES],
            titles=("entries", "seconds"), log=(True, True),
        ),
    )  # fmt: skip
    yield f"Scenarios 2 and 3: {million:,} entries, by the number of groups."
    groups = study.of((10, 50, 100, 150, 200), (10, 50))
    second = [
        {"groups": n}
        | {
            f"s2 = {share:.0%}": seconds(million, n, 5 * round(n * share), round(n * share))
            for share in SHARES
        }
        for n in groups
    ]
    yield table(second)
    third = {
        n: seconds(million, n, 50, 5)
        for n in study.of((50, 100, 500, 1000, 5000, 10_000), (50, 500))
    }
    yield table({"groups": n, "s1 = 50, s2 = 5": took} for n, took in third.items())
    yield f"Scenario 4: {million:,} entries in 100 groups, seconds by the share of the groups."
    fourth = [
        {"s2": s2}
        | {f"s1 = {times} s2": seconds(million, 100, times * s2, s2) for times in (5, 10, 20)}
        for s2 in study.of((10, 20, 30, 40, 50, 60), (10, 20))
    ]
    yield table(fourth)
    last = float(first["seconds"].max())
    yield claims(
        {
            "the number of groups is no major factor (scenario 3)": (
                max(third.values()) < 4 * min(third.values()),
                f"{min(third.values()):.3f} to {max(third.values()):.3f} s",
            ),
            "the most entries take at most the published tens of seconds": (
                last < 50, f"{last:.2g} s at most; the dynamic programme is compiled here",
            ),
        }
    )  # fmt: skip


@cache
def normal_gram(n: int, p: int) -> ds.Gram:
    """Return the Gram of p columns and y, all independent normal numbers."""
    columns = [*(f"x{j}" for j in range(p)), "y"]
    return ds.gram(np.random.default_rng(p).standard_normal((n, p + 1)), columns=columns)


def descent(n: int, p: int, share: float, variant: str) -> tuple[dict[str, Any], pl.DataFrame]:
    """Return how a variant ended on normal numbers, and f after each step."""
    gram = normal_gram(n, p)
    groups = {f"g{g}": gram.columns[g * 100 : (g + 1) * 100] for g in range(p // 100)}
    s2 = round(share * len(groups))
    start = time.perf_counter()
    found = ds.sght(
        gram, "y", groups, max_columns=5 * s2, max_groups=s2, variant=variant,
        start="zero", refit=False, polish=False, max_iter=STEPS,
    )  # fmt: skip
    took = time.perf_counter() - start
    # The descent counts from 0 for nothing selected; what is left is 1 + 2 f.
    f = 0.5 + np.array(found.how.history)
    told = {"steps": len(f) - 1, "converged": str(found.how.converged), "seconds": took}
    end = {"n, p": f"{n}, {p}", "s2": s2, "variant": variant, "f at the end": float(f[-1])}
    return end | told, pl.DataFrame({"step": np.arange(len(f)), "f": f, "variant": variant})


def lowest(case: list[dict[str, Any]]) -> set[str]:
    """Return the variants that end within 5 % of the lowest f."""
    least = min(one["f at the end"] for one in case)
    return {one["variant"] for one in case if one["f at the end"] <= 1.05 * least}


def convergence(study: Study) -> Iterator[str]:
    """Repeat Figure 4."""
    yield "## SGHT: convergence of the variants (Xiang et al., Figure 4)"
    yield prose(
        f"""
        Published: (n, p) = (100, 2000), (100, 5000), (1000, 20000) and (1000, 50000), groups of
        100, s2 a tenth or a fifth of the groups, s1 = 5 s2, up to {STEPS} steps. Here the first
        two, as the Gram of 50,000 columns has 20 GB. A and y are independent normal numbers, the
        start is 0, there is neither refit nor exchange; f is half the share of the variance that
        is left.
        """
    )
    rows, histories = [], []
    for n, p in study.of(SHAPES, ((50, 400),)):
        for share in study.of((0.1, 0.2), (0.25, 0.5)):
            for variant in VARIANTS:
                row, history = descent(n, p, share, variant)
                rows.append(row)
                if (n, p, share) == (*SHAPES[0], 0.1):
                    histories.append(history)
    yield table(rows)
    if histories:
        yield study.picture(
            "sght_convergence",
            "f by step, 100 rows, 2000 columns, s2 = 4",
            lines(
                pl.concat(histories), "step", "f", "variant", order=VARIANTS, titles=("step", "f")
            ),
        )
    cases = [rows[i : i + len(VARIANTS)] for i in range(0, len(rows), len(VARIANTS))]
    within = [lowest(case) for case in cases]
    yield claims(
        {
            "ISTA-L and FISTA end within 5 % of the lowest f": (
                all({"ista-l", "fista"} <= own for own in within),
                "; ".join(", ".join(sorted(own)) for own in within),
            ),
            "a Barzilai-Borwein start saves steps (FISTA against FISTA-C)": (
                all(case[2]["steps"] < case[3]["steps"] for case in cases),
                ", ".join(f"{case[2]['steps']} for {case[3]['steps']}" for case in cases),
            ),
        }
    )
