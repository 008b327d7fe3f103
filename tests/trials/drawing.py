"""Draw random cases of families for some time, and tell what they find."""

import random
import time
import warnings
from collections.abc import Callable, Mapping

#: A family of cases: it draws one and raises where what it finds is wrong.
Family = Callable[[random.Random], None]
#: Findings of a family that are printed: more tell nothing new.
MOST_FINDINGS = 5


def run(name: str, family: Family, seed: int) -> None:
    """Run one case; what it raises is a finding."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        family(random.Random(f"{name} {seed}"))


def main(families: Mapping[str, Family], given: list[str]) -> int:
    """Run ``SECONDS [FIRST]`` or ``FAMILY SEED``; 1 if something was found."""
    if given and given[0] in families:
        run(given[0], families[given[0]], int(given[1]))
        return 0
    return int(draw_all(families, float(given[0]), int([*given, 0][1])) > 0)


def draw_all(families: Mapping[str, Family], seconds: float, first: int) -> int:
    """Draw cases for some time; return how many findings there were."""
    start = time.monotonic()
    counts, findings = dict.fromkeys(families, 0), dict.fromkeys(families, 0)
    seed = first
    while time.monotonic() - start < seconds:
        for name, family in families.items():
            counts[name] += 1
            try:
                run(name, family, seed)
            except BaseException as error:
                if isinstance(error, KeyboardInterrupt):
                    raise
                findings[name] += 1
                if findings[name] > MOST_FINDINGS:
                    continue
                print(f"finding: {name} {seed}: {type(error).__name__}: {error}", flush=True)
        seed += 1
    total, elapsed = sum(counts.values()), time.monotonic() - start
    for name, count in counts.items():
        print(f"{name}: {count} cases, {findings[name]} findings")
    print(f"all, from seed {first}: {total} cases, {total / elapsed:.0f} a second")
    return sum(findings.values())
