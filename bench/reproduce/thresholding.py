"""Xiang, Yang, Ye (2014): times of the projection (Figure 3) and of the descents (Figure 4)."""

import time
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import polars as pl

import dbselect as ds
from reproduce.claims import LEAST_RUNS, said
from reproduce.page import Study, lines, prose, spread, table
from reproduce.published import XIANG

#: Figure 3's first scenario: entries, in 100 groups.
ENTRIES = (1_000, 10_000, 100_000, 1_000_000, 5_000_000)
SHARES = (0.2, 0.4, 0.6)
MILLION = 1_000_000
#: Figure 4: rows and columns, the latter in groups of 100; data sets of each.
SHAPES = {(100, 2000): 20, (100, 5000): 20, (1000, 20000): 20, (1000, 50000): 1}
STEPS, TOL = 100, 1e-4
VARIANTS = ["ista", "ista-l", "fista", "fista-c"]


def descents(
    X: np.ndarray, y: np.ndarray, sizes: Sequence[int], limits: Sequence[tuple[int, int]]
) -> dict[tuple[int, int], np.ndarray]:
    """Return the solutions of the paper's descent from zero, by (s1, s2)."""
    labels = np.repeat(np.arange(len(sizes)), sizes)
    descent = partial(ds.reference.sght_on_rows, X, y, labels, tol=TOL, max_iter=STEPS)
    return {pair: descent(*pair).x for pair in limits}


def seconds(p: int, n_groups: int, s1: int, s2: int, seed: int = 0) -> float:
    """Return the seconds of one projection, the best of three."""
    rng = np.random.default_rng(seed)
    v, labels = rng.standard_normal(p), np.arange(p) * n_groups // p
    times = []
    for _ in range(3):
        start = time.perf_counter()
        ds.reference.sght_project(v, labels, s1, s2)
        times.append(time.perf_counter() - start)
    return min(times)


def projection(study: Study) -> Iterator[str]:
    """Repeat Figure 3."""
    entries, million = study.of((ENTRIES, MILLION), (ENTRIES[:2], 10_000))
    yield "## SGHT: time of the projection (Xiang et al., Figure 3)"
    yield prose(
        """
        Published: curves, whose numbers are not in the text; their axes end at 80 s for 5,000,000
        entries, and scenario 3 is called "nearly flat": the number of groups is no major factor.
        Here seconds of `sght_project` on normal entries, the best of three.
        """
    )

    def row(p: int, n_groups: int) -> dict[str, float]:
        s2 = [round(n_groups * share) for share in SHARES]
        return {f"s2 = {share:.0%}": seconds(p, n_groups, 5 * most, most)
                for share, most in zip(SHARES, s2, strict=True)}  # fmt: skip

    yield "Scenario 1: 100 groups, s1 = 5 s2."
    first = [{"entries": p, **row(p, 100)} for p in entries]
    yield table(first)
    shares = [f"s2 = {share:.0%}" for share in SHARES]
    frame = pl.DataFrame(first).unpivot(shares, index="entries", variable_name="s2")
    yield study.picture(
        "sght_projection",
        "Seconds of a projection by entries, both axes logarithmic",
        lines(frame, "entries", "value", "s2", order=shares, titles=("entries", "seconds"),
              log=(True, True)),
    )  # fmt: skip
    words = "by the number of groups, s1 = 5 s2; scenario 4, s1 of 10 and 20 s2, is left out"
    yield f"Scenario 2: {million:,} entries, {words}."
    yield table({"groups": n, **row(million, n)} for n in study.of((10, 100, 200), (10, 50)))
    many = study.of((50, 100, 500, 1000, 5000, 10_000), (50, 500))
    seeds = study.seeds(20)
    third = {n: [seconds(million, n, 50, 5, seed) for seed in seeds] for n in many}
    yield f"Scenario 3: {million:,} entries, s1 = 50, s2 = 5, {len(seeds)} vectors."
    yield table([{"groups": n, "seconds": spread(third[n])} for n in many])
    flat = 1.25 - np.array(third[many[-1]]) / np.array(third[many[0]])
    claim = f"scenario 3 is flat: {many[-1]:,} groups take within a quarter of what {many[0]} take"
    yield study.judge(said(XIANG, "Figure 3", claim, flat))


def descent(seed: int, n: int, p: int, share: float) -> Iterator[dict[str, Any]]:
    """Yield how each variant ended on normal numbers, from zero, and f after each step."""
    rng = np.random.default_rng(seed)
    X, y = rng.standard_normal((n, p)), rng.standard_normal(n)
    labels, s2 = np.arange(p) // 100, round(share * p / 100)
    for variant in VARIANTS:
        start = time.perf_counter()
        result = ds.reference.sght_on_rows(
            X, y, labels, 5 * s2, s2, variant=variant, tol=TOL, max_iter=STEPS
        )
        took = time.perf_counter() - start
        yield {
            "seed": seed, "shape": f"{n}, {p}", "s2": s2, "variant": variant,
            "f": float(result.history[-1]), "steps": len(result.history) - 1,
            "projections": result.projections, "seconds": took, "history": result.history.tolist(),
        }  # fmt: skip


def convergence(study: Study) -> Iterator[str]:
    """Repeat Figure 4."""
    yield "## SGHT: convergence of the variants (Xiang et al., Figure 4)"
    shapes = study.of(SHAPES, {(50, 400): 2})
    yield prose(
        f"""
        Published: (n, p) = (100, 2000), (100, 5000), (1000, 20000) and (1000, 50000), groups of
        100, s2 a tenth or a fifth of the groups, s1 = 5 s2, up to {STEPS} steps. Here all four,
        of {", ".join(map(str, shapes.values()))} data sets (one is shown and not judged); A and y
        are independent normal numbers as they are, f is |Ax - y|^2 / 2, the start is 0, a step ends
        the descent that changes f by less than {TOL:g} of it. This is `sght_on_rows`:
        rows and no Gram, L from max(1, Barzilai-Borwein) or from 1, neither refit nor exchange.
        """
    )
    runs = pl.DataFrame(
        row
        for (n, p), count in shapes.items()
        for seed in range(1000, 1000 + count)
        for share in study.of((0.1, 0.2), (0.25, 0.5))
        for row in descent(seed, n, p, share)
    )
    table_rows = []
    for (shape, s2), part in runs.group_by("shape", "s2", maintain_order=True):
        rows_of = {name[0]: own for name, own in part.group_by("variant", maintain_order=True)}
        ends = {name: spread(own["f"]) for name, own in rows_of.items()}
        times = ", ".join(f"{own['projections'].mean():.3g}" for own in rows_of.values())
        table_rows.append({"n, p": shape, "s2": s2, **ends, "projections": times})
    yield table(table_rows)
    shape, s2 = runs["shape"][0], runs["s2"].unique().sort()[0]
    drawn = runs.filter(shape=shape, s2=runs.filter(shape=shape)["s2"].max())
    drawn = drawn.select(
        "seed", "variant", "history", step=pl.int_ranges(pl.col("history").list.len())
    )
    words = f"f by step, {shape.replace(', ', ' rows, ')} columns, s2 = "
    words += f"{runs.filter(shape=shape)['s2'].max()}, means with 95 % intervals"
    curves = drawn.explode("history", "step").rename({"history": "f"})
    yield study.picture(
        "sght_convergence", words,
        lines(curves, "step", "f", "variant", order=VARIANTS, titles=("step", "f")),
    )  # fmt: skip
    claims = []
    for (shape, s2), part in runs.group_by("shape", "s2", maintain_order=True):
        if part["seed"].n_unique() < study.of(LEAST_RUNS, 2):
            continue
        where = f"Figure 4, {shape}, s2 = {s2}"
        measures_of = {
            name: part.pivot("variant", index="seed", values=name)
            for name in ("f", "projections", "seconds")
        }
        saved = measures_of["projections"]["fista-c"] - measures_of["projections"]["fista"]
        claims.append(said(XIANG, where, "Barzilai-Borwein saves FISTA projections", saved))
        for name in ("ista-l", "fista"):
            for other in ("ista", "fista-c"):
                margins = measures_of["f"][other] - measures_of["f"][name]
                claims.append(said(XIANG, where, f"{name} ends below {other}", margins))
    yield study.judge(*claims)
