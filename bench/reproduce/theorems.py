"""The papers' lemmas and theorems with a number in them, and the same of a broken product.

One violation contradicts a bound. A check counts only where its bound is within a factor of 2 of
what is reached, or is exact, and where the product that is broken on purpose violates it. What
holds for every function, whoever computed it, is no check of this package and is left out.
"""

import itertools
import math
from collections.abc import Callable, Iterator

import numpy as np

import dbselect as ds
from reproduce.claims import bound
from reproduce.origin import through_origin
from reproduce.page import Study, prose, table
from reproduce.published import HU, QIAN, XIANG, ZHANG

#: Groups of a random problem, all sets of which are tried, and the columns of each.
GROUPS, SIZE = 6, 2
EPSILON, ETA = 0.1, 0.1
#: A share that is rounding.
ROUNDING = 1e-9
#: Check, the paper, and what is broken on purpose.
CHECKS = {
    "Hu, Lemma 3.1": (HU, "gamma is doubled"),
    "Hu, Theorem 3.2": (HU, "the order is reversed"),
    "Hu, Theorem 4.3": (HU, "the order is reversed"),
    "Zhang, Theorem 1: the support": (ZHANG, "epsilon is a thousandth"),
    "Zhang: at most 2 R(0) / epsilon additions": (ZHANG, "epsilon is a thousandth"),
    "Zhang: f3, f1, f2, -f3": (ZHANG, "nothing is removed"),
    "Xiang: the projection is the best": (XIANG, "the group of the largest entry is left out"),
    "Qian, Theorem 10": (QIAN, "OPT is 0, so nothing is filtered"),
}
#: A check: its name, what is reached, and the least that is promised.
Check = tuple[str, float, float]
#: From a generator, and whether to break the product.
Problem = Callable[[np.random.Generator, bool], Iterator[Check]]


def subsets(count: int) -> list[tuple[int, ...]]:
    """Return all sets of some numbers."""
    return [S for size in range(count + 1) for S in itertools.combinations(range(count), size)]


def explained(C: np.ndarray, c: np.ndarray, columns: list[int]) -> float:
    """Return c_S' C_SS^-1 c_S."""
    at = np.ix_(columns, columns)
    return float(c[columns] @ np.linalg.solve(C[at], c[columns])) if columns else 0.0


def rows(
    rng: np.random.Generator, width: int, common: float, n: int = 400
) -> tuple[np.ndarray, np.ndarray]:
    """Return nearly orthogonal columns and a target of unequal weights, centred, of variance 1."""
    X = rng.standard_normal((n, width))
    X = np.linalg.qr(X - X.mean(axis=0))[0] * math.sqrt(n)
    X += common * rng.standard_normal((n, 1))
    y = X @ rng.exponential(size=width) ** 2 + 0.1 * rng.standard_normal(n)
    X, y = X - X.mean(axis=0), y - y.mean()
    return X / X.std(axis=0), y / y.std()


def closest(pairs: Iterator[tuple[float, float]]) -> tuple[float, float]:
    """Return what is reached and promised where the promise is nearest, or broken most."""
    return min(pairs, key=lambda pair: pair[0] / pair[1])


def sequencing(rng: np.random.Generator, is_broken: bool) -> Iterator[Check]:
    """Yield Hu's bounds, over all competing sets and all prefixes."""
    X, y = rows(rng, GROUPS * SIZE, 0.15)
    names = [f"x{j}" for j in range(X.shape[1])]
    groups = {f"g{g}": names[g * SIZE : (g + 1) * SIZE] for g in range(GROUPS)}
    price = rng.integers(1, 4, GROUPS).astype(float)
    price[:2] = 1.0
    costs = dict(zip(groups, price.tolist(), strict=True))
    C, c = X.T @ X / len(y), X.T @ y / len(y)
    F = {S: explained(C, c, [g * SIZE + j for g in S for j in range(SIZE)])
         for S in subsets(GROUPS)}  # fmt: skip
    K = {S: float(price[list(S)].sum()) for S in F}
    gram = ds.gram(np.column_stack([X, y]), columns=[*names, "y"])

    def curve(rule: str) -> tuple[ds.results.Sequence, np.ndarray, np.ndarray]:
        """Return a sequence, and the cost and value of its prefixes, reversed if broken."""
        sequence = ds.anytime_sequence(gram, "y", groups, costs, rule=rule)
        order = [int(name[1:]) for name in sequence.steps["group"].drop_nulls()]
        order = order[::-1] if is_broken else order
        prefixes = [tuple(sorted(order[:end])) for end in range(GROUPS + 1)]
        return sequence, np.array([K[S] for S in prefixes]), np.array([F[S] for S in prefixes])

    for rule in ("fr", "omp"):
        sequence, spent, reached = curve(rule)
        gamma = sequence.guarantee().gamma
        rate = np.diff(sequence.explained) / np.diff(sequence.spent)
        factor = 2.0 if is_broken else 1.0
        yield ("Hu, Lemma 3.1", *closest(
            (K[S] * rate[j] / (gamma * factor), F[S] - sequence.explained[j])
            for S in F for j in range(GROUPS) if F[S] > sequence.explained[j] + ROUNDING
        ))  # fmt: skip
        yield ("Hu, Theorem 3.2", *closest(
            (reached[j], -math.expm1(-gamma * spent[j] / K[S]) * F[S])
            for S in F if S for j in range(1, GROUPS + 1)
        ))  # fmt: skip
    sequence, spent, reached = curve("doubling")
    share = sequence.guarantee().doubling
    if share is not None:
        budgets = np.unique([*spent, *(4 * cost for cost in K.values())])
        yield ("Hu, Theorem 4.3", *closest(
            (reached[np.searchsorted(spent, B + ROUNDING) - 1],
             share * max(F[S] for S in F if K[S] <= B / 4))
            for B in budgets if 4 * price.min() <= B
        ))  # fmt: skip


def foba(rng: np.random.Generator, is_broken: bool) -> Iterator[Check]:
    """Yield Zhang's Theorem 1, the number of additions, and the example of his slides."""
    n, d, noise = 4000, 12, 0.5
    X = rng.standard_normal((n, d))
    X *= np.sqrt(n) / np.linalg.norm(X, axis=0)
    rho = float(np.linalg.eigvalsh(X.T @ X / n)[0])
    epsilon = 64 * noise**2 * math.log(2 * d / ETA) / (rho**2 * n)
    smaller = 1e-3 if is_broken else 1.0
    w = np.zeros(d)
    w[0] = 1.2 * math.sqrt(64 / 25 * epsilon) / rho
    y = X @ w + noise * rng.standard_normal(n)
    names = [f"x{j}" for j in range(d)]
    gram, variance = through_origin(X, y, names), float(y @ y / n)
    sequence = ds.foba(gram, "y", epsilon=smaller * epsilon / variance)
    is_found = sequence.at().groups == ["x0"]
    yield "Zhang, Theorem 1: the support", float(is_found), 1.0
    # Of k equal weights each takes R(0) / k; epsilon is just below.
    k, width = 4, 12
    Q = np.linalg.qr(rng.standard_normal((200, width)))[0]
    y = Q[:, :k].sum(axis=1) + 0.05 * Q[:, k:].sum(axis=1)
    share = 0.99 / (k + 0.05**2 * (width - k))
    sequence = ds.foba(through_origin(Q, y, names), "y", epsilon=smaller * share)
    added = sequence.steps.filter(action="add").height
    yield "Zhang: at most 2 R(0) / epsilon additions", 2 / share, float(added)
    f1, f2, third = np.linalg.qr(rng.standard_normal((50, 3)))[0].T
    f3 = f1 + f2 + 0.3 * third
    gram = through_origin(np.column_stack([f1, f2, f3]), f1 + f2, ["f1", "f2", "f3"])
    search = ds.anytime_sequence if is_broken else ds.foba
    steps = search(gram, "y", **({} if is_broken else {"epsilon": 1e-9})).steps.slice(1)
    order = [("-" if action == "remove" else "") + group
             for action, group in zip(steps["action"], steps["group"], strict=True)]  # fmt: skip
    is_as_published = order[0] == "f3" and set(order[1:3]) == {"f1", "f2"} and order[3:] == ["-f3"]
    yield "Zhang: f3, f1, f2, -f3", float(is_as_published), 1.0


def thresholding(rng: np.random.Generator, is_broken: bool) -> Iterator[Check]:
    """Yield the optimality of Xiang's projection, by trying all supports."""
    p, s1, s2, size = 8, 3, 2, 2
    groups, v = np.arange(p) // size, rng.standard_normal(p)
    allowed = [list(S) for S in subsets(p)
               if 0 < len(S) <= s1 and len(set(groups[list(S)])) <= s2]  # fmt: skip
    given = np.where(groups == groups[np.abs(v).argmax()], 0.0, v) if is_broken else v
    kept = ds.reference.sght_project(given, groups, s1, s2)
    is_allowed = np.flatnonzero(kept).tolist() in allowed
    most = max(float((v[S] ** 2).sum()) for S in allowed)
    yield "Xiang: the projection is the best", float(kept @ kept) if is_allowed else 0.0, most


def sampling(rng: np.random.Generator, is_broken: bool) -> Iterator[Check]:
    """Yield Qian and Singer's Theorem 10 where f is modular, so that alpha is 1."""
    width, k, rounds = 40, 6, 3
    X = rng.standard_normal((400, width))
    X = np.linalg.qr(X - X.mean(axis=0))[0]
    # Eight columns explain all, nearly alike.
    y = X[:, :8] @ rng.uniform(0.9, 1.1, 8)
    best = float(np.sort((X.T @ y) ** 2)[-k:].sum() / (y @ y))
    gram = ds.gram(np.column_stack([X, y]), columns=[*(f"x{j}" for j in range(width)), "y"])
    found = ds.dash(
        gram, "y", k=k, rounds=rounds, alpha=1.0, epsilon=EPSILON, literal=True, samples=100,
        seed=int(rng.integers(100)), opt=1e-9 if is_broken else best,
    )  # fmt: skip
    yield "Qian, Theorem 10", found.r2, (-math.expm1(-1.0) - EPSILON) * best


#: Problems, and how many of them for each reported seed.
PROBLEMS: dict[Problem, int] = {sequencing: 3, foba: 1, thresholding: 1, sampling: 1}


def ratios(work: Problem, seeds: range, *, is_broken: bool = False) -> dict[str, list[float]]:
    """Return what is reached as a multiple of what is promised: below 1 is a violation."""
    found: dict[str, list[float]] = {}
    for seed in seeds:
        for name, reached, promised in work(np.random.default_rng(seed), is_broken):
            found.setdefault(name, []).append(reached * (1.0 + ROUNDING) / promised)
    return found


def margins(study: Study) -> Iterator[str]:
    """Show how near each bound is, and how often a broken product violates it."""
    seeds = study.seeds(20, 2)
    kept: dict[str, list[float]] = {}
    broken: dict[str, list[float]] = {}
    for work, times in PROBLEMS.items():
        seeds_of = range(seeds.start, seeds.start + times * len(seeds))
        kept |= ratios(work, seeds_of)
        broken |= ratios(work, seeds_of, is_broken=True)
    yield "## Theorems"
    yield prose(
        f"""
        On random problems small enough to try all sets. A ratio is what is reached over what is
        promised; one below 1 is a violation, and a single one contradicts. The last columns are
        those of a product that is broken on purpose. Hu's problems have {GROUPS} nearly orthogonal
        groups of {SIZE} columns, rules `fr` and `omp`, gamma as `guarantee()` reports it. Theorem
        4.3 promises .39 of a quarter of the budget at best, so nothing sensible comes within 2.
        """
    )
    yield table(
        {"check": name, "problems": len(own), "least ratio": min(own), "median": np.median(own),
         "broken": CHECKS[name][1], "violations": sum(ratio < 1 for ratio in broken[name])}
        for name, own in kept.items()
    )  # fmt: skip
    yield prose(
        """
        Left out, as they say nothing of this package: Hu's Lemmas 3.3 and 3.4 (steps of the proof
        of 3.1, true of any least squares) and Theorem 4.1 (an inequality of means; doubling takes
        its 4); Qian and Singer's Theorem 6, Corollaries 7 to 9, Lemmas 15, 18, 19 (of the
        objectives, or of exact expectations) and 20 (Markov's inequality). Too loose to be checks:
        Zhang's error and number of iterations (4 to 10 times what happens), his approximate target
        (an O without its constant), Xiang's Theorem 1, Qian and Singer's Lemma 21 (129 rounds where
        3 happen) and sample size (m = (OPT / epsilon)^2 log(2 / delta) / 2 is 150 for errors of .1;
        they take 5). Their appendix A, worst cases, is in `tests/sets/test_dash.py`; appendix J,
        that the worst case is pessimistic, has no figure. Of generalised linear models nothing is
        promised: the least curvature of
        logistic and Poisson losses is 0.
        """
    )
    yield prose(
        """
        Not repeated, besides: for generalised linear models the arXiv version's Algorithm 2 sums
        squares row by row, Algorithm 3 of the published paper squares the summed gradient, as
        dbselect does; SGHT's stop by the gradient, whose threshold is not printed, as the descent
        stops by the change of f; SGHT with a logistic loss, which has a sentence and no data there
        (`sght(family="binomial")` is tested in `tests/glm/test_glm_sght.py`); Qian and Singer's
        Figure 1, an illustration of one feature.
        """
    )
    papers = list(dict.fromkeys(paper for paper, _ in CHECKS.values()))
    yield study.judge(*(
        bound(paper, f"{paper.split()[0].strip(',')}, theorems", name, own)
        for paper in papers for name, own in kept.items() if CHECKS[name][0] == paper
    ))  # fmt: skip
