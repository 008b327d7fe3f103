"""Decide which examinations of a heart patient are worth their dollars, and write a report."""

from pathlib import Path

import dbselect as ds

REPORT = Path(__file__).parent / "data" / "heart.html"


def report(path: Path) -> None:
    """Write the report of the patients."""
    heart = ds.io.example_problem("heart")
    folds = ds.gram_by(heart.source, fold=5)
    held_out = ds.cross_validate(
        folds, "disease", "anytime_sequence", groups=heart.groups, costs=heart.costs
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    heart.anytime_sequence().report(
        path, source=heart.source, held_out=held_out, unit="$",
        title="Which examinations best predict heart disease for their price",
    )  # fmt: skip


def main() -> None:
    """Print the order by gain per dollar, and what an order without prices costs."""
    heart = ds.io.example_problem("heart")
    seq = heart.anytime_sequence()
    print("270 patients; dollars of each examination by Turney (1995)\n")
    print(seq)

    blind = ds.anytime_sequence(heart.source, "disease").with_costs(heart.costs)
    facts, scan = seq.at(budget=4.0), blind.model(1)
    print(f"\nFor ${facts.spent:g}: {', '.join(facts.groups)} explain {facts.r2:.2f}.")
    print(f"Without prices {scan.groups[0]} comes first: ${scan.spent:.2f} explain {scan.r2:.2f}.")
    report(REPORT)
    print("Move the prices and see the order change: examples/data/heart.html")


if __name__ == "__main__":
    main()
