"""Show what forward selection cannot repair, and FoBa does.

Two columns make the target, and a third is near it: on its own it is the best of all, so
forward selection takes it first and keeps it. FoBa gives it back once the true ones are there.
"""

import argparse
from pathlib import Path

import altair as alt
import numpy as np
import polars as pl

import dbselect as ds

PICTURE = Path(__file__).parents[1] / "docs" / "guides" / "pictures" / "foba.png"
COLOURS = alt.Scale(domain=["forward", "FoBa"], range=["#fdbf8f", "#1b7e5f"])


def table(seed: int = 0, rows: int = 2_000) -> pl.DataFrame:
    """Return y = f1 + f2 + noise, f3 near y, and two columns of noise."""
    rng = np.random.default_rng(seed)
    f1, f2, f4, f5 = rng.normal(size=(4, rows))
    y = f1 + f2 + 0.1 * rng.normal(size=rows)
    f3 = y + 0.5 * rng.normal(size=rows)
    return pl.DataFrame({"f1": f1, "f2": f2, "f3": f3, "f4": f4, "f5": f5, "y": y})


def trace(sequence: ds.results.Sequence) -> list[str]:
    """Return the groups in the order taken; a minus for one that was given back."""
    steps = sequence.steps.filter(pl.col("step") > 0)
    return [("-" if act == "remove" else "+") + group for act, group in zip(
        steps["action"], steps["group"], strict=True)]  # fmt: skip


def path(name: str, sequence: ds.results.Sequence) -> pl.DataFrame:
    """Return the columns held and the error at every step."""
    return sequence.steps.select(
        "step",
        held=pl.col("spent").cast(pl.Int64),
        error=(1 - pl.col("r2")).sqrt(),
        what=pl.Series(["", *trace(sequence)]),
        method=pl.lit(name),
    )


def draw(forward: ds.results.Sequence, repaired: ds.results.Sequence) -> alt.LayerChart:
    """Draw the error against the number of columns; FoBa's line turns back."""

    def line(name: str, sequence: ds.results.Sequence, width: int) -> alt.LayerChart:
        base = alt.Chart(path(name, sequence)).encode(
            x=alt.X("held:Q", title="columns held", axis=alt.Axis(tickMinStep=1)),
            y=alt.Y("error:Q", title="error, share of the target's deviation"),
            color=alt.Color("method:N", title=None, scale=COLOURS),
        )
        steps = base.mark_line(strokeWidth=width).encode(order="step:Q")
        return steps + base.mark_text(dx=16, dy=-8).encode(text="what:N")

    lines = line("forward", forward, 8) + line("FoBa", repaired, 2)
    return lines.properties(
        width=420, height=280, title="f3 is near y = f1 + f2: forward keeps it, FoBa gives it back"
    )


def main() -> None:
    """Print both traces and the models of two columns; draw the paths."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=PICTURE, help="PNG file to write")
    gram = ds.gram(table())
    forward = ds.anytime_sequence(gram, "y", max_groups=3)
    repaired = ds.foba(gram, "y", epsilon=0.001)
    for name, found in (("forward", forward), ("FoBa", repaired)):
        model = found.at(size=2)
        print(f"{name:8}{' '.join(trace(found)):24}two columns: {', '.join(model.groups)}; "
              f"r2 {model.r2:.4f}")  # fmt: skip
    draw(forward, repaired).save(parser.parse_args().out, ppi=120)


if __name__ == "__main__":
    main()
