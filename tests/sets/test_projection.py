"""The projection against brute force over all supports, and the laws it must keep."""

from functools import cache
from itertools import product

import numpy as np
import pytest
from problems import EPS

from dbselect.errors import ArgumentError, GroupError
from dbselect.selection.projection import sght_project, sght_table

#: Values nearer than this share are ties: sums of a few squares.
TIE = 64 * EPS


@cache
def all_subsets(width):
    return np.array(list(product([False, True], repeat=width)))


def best_support(v, labels, max_columns, max_groups):
    """Try every subset of the entries; ties as the docstring of `sght_project` says."""
    subsets = all_subsets(len(v))
    counts = np.stack([subsets[:, labels == g].sum(axis=1) for g in range(labels.max() + 1)], 1)
    allowed = (subsets.sum(axis=1) <= max_columns) & ((counts > 0).sum(axis=1) <= max_groups)
    value = np.where(allowed, subsets @ v**2, -1.0)
    best = np.flatnonzero(value >= value.max() * (1 - TIE))
    least = min(best, key=lambda i: (*counts[i, ::-1], *np.flatnonzero(subsets[i])))
    return value.max(), np.flatnonzero(subsets[least])


def published(v, labels, max_columns, max_groups):
    """Fill the table by Algorithm 3, one entry at a time."""
    T = np.zeros((max_groups + 1, max_columns + 1))
    for group in range(labels.max() + 1):
        gains = np.cumsum(np.sort(v[labels == group] ** 2)[::-1])
        before = T.copy()
        for j in range(1, max_groups + 1):
            for k in range(1, max_columns + 1):
                most = min(k, len(gains))
                best = max(before[j - 1, k - t] + gains[t - 1] for t in range(1, most + 1))
                T[j, k] = max(before[j, k], best)
    return T


def random_case(rng, kind, most_groups=4, most_entries=4):
    labels = np.repeat(
        np.arange(most_groups), rng.integers(1, most_entries, most_groups, endpoint=True)
    )
    labels = labels[: rng.integers(1, 9, endpoint=True)]
    labels = rng.permutation(labels) if rng.random() < 0.5 else labels
    draw = {
        "normal": lambda: rng.standard_normal(len(labels)),
        "ties and zeros": lambda: rng.integers(-3, 4, len(labels)).astype(float),
        "equal sums": lambda: rng.choice([3.0, -4.0, 5.0], len(labels)),
    }[kind]
    return draw(), np.unique(labels, return_inverse=True)[1]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["normal", "ties and zeros", "equal sums"])
def test_every_pair_of_limits_equals_brute_force(kind):
    rng = np.random.default_rng(0)
    for _ in range(100):
        v, labels = random_case(rng, kind)
        n_entries, n_groups = len(v), labels.max() + 1
        table = sght_table(v, labels, n_entries, n_groups)
        assert not table.value[0].any()
        assert not table.value[:, 0].any()
        for max_groups in range(1, n_groups + 1):
            for max_columns in range(1, n_entries + 1):
                value, support = best_support(v, labels, max_columns, max_groups)
                np.testing.assert_allclose(table.value[max_groups, max_columns], value, rtol=TIE)
                np.testing.assert_array_equal(table.support(max_columns, max_groups), support)
                expected = np.zeros(n_entries)
                expected[support] = v[support]
                for found in (
                    table.project(max_columns, max_groups),
                    sght_project(v, labels, max_columns, max_groups),
                ):
                    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("integers", [False, True])
def test_table_equals_the_published_recursion_for_groups_of_many_entries(integers):
    rng = np.random.default_rng(1)
    labels = rng.permutation(np.repeat(np.arange(9), [400, 3, 60, 45, 70, 1, 300, 40, 81]))
    v = rng.integers(-9, 10, 1000).astype(float) if integers else rng.standard_normal(1000)
    table = sght_table(v, labels, 120, 3)
    np.testing.assert_allclose(table.value, published(v, labels, 120, 3), rtol=0, atol=1e-10)
    for max_groups, max_columns in product((1, 2, 3), (1, 7, 64, 120)):
        support = table.support(max_columns, max_groups)
        assert len(support) <= max_columns
        assert len(np.unique(labels[support])) <= max_groups
        np.testing.assert_allclose(
            v[support] @ v[support], table.value[max_groups, max_columns], rtol=1e-12
        )


def test_more_groups_than_a_byte_counts():
    rng = np.random.default_rng(6)
    v, labels = rng.standard_normal(2000), rng.permutation(np.arange(2000) % 700)
    table = sght_table(v, labels, 8, 5)
    np.testing.assert_allclose(table.value, published(v, labels, 8, 5), rtol=1e-13)


def test_equal_entries_are_kept_by_group_and_index():
    v, labels = np.ones(1200), np.repeat([0, 1, 2], 400)
    support = sght_table(v, labels, 500, 3).support(500, 2)
    np.testing.assert_array_equal(support, np.arange(500))
    mixed = labels[::-1]
    support = sght_table(v, mixed, 500, 3).support(500, 2)
    np.testing.assert_array_equal(support, np.r_[400:500, 800:1200])


@pytest.mark.parametrize("scale", [1e-200, 1e-150, 1e150, 1e200])
def test_support_does_not_depend_on_the_unit(scale):
    rng = np.random.default_rng(7)
    v, labels = rng.standard_normal(60), np.arange(60) % 6
    expected = sght_table(v, labels, 12, 3).support(12, 3)
    np.testing.assert_array_equal(sght_table(scale * v, labels, 12, 3).support(12, 3), expected)


def test_an_entry_is_kept_however_small_if_there_is_room():
    v = np.array([1e100, 1.0, 0.0, -5e-324, 0.0])
    labels = [0, 0, 1, 1, 1]
    np.testing.assert_array_equal(sght_project(v, labels, 5, 2), v)
    np.testing.assert_array_equal(sght_table(v, labels, 3, 2).support(3, 2), [0, 1, 3])
    np.testing.assert_array_equal(sght_table(v, labels, 3, 2).support(3, 1), [0, 1])


def test_groups_are_the_same_as_labels_lists_or_mapping():
    rng = np.random.default_rng(8)
    v, labels = rng.standard_normal(50), rng.permutation(np.arange(50) % 5)
    lists = [np.flatnonzero(labels == group)[::-1] for group in range(5)]
    expected = sght_project(v, labels, 9, 2)
    for groups in (
        labels.astype(np.uint8),
        labels.tolist(),
        lists,
        [members.tolist() for members in lists],
        dict(zip("abcde", lists, strict=True)),
    ):
        np.testing.assert_array_equal(sght_project(v, groups, 9, 2), expected)


def test_an_entry_in_no_group_is_never_kept():
    v = np.array([9.0, 1.0, 8.0, 2.0, 7.0])
    kept = sght_project(v, [[3, 1], [4]], 3, 2)
    np.testing.assert_array_equal(kept, [0.0, 1.0, 0.0, 2.0, 7.0])


V = [1.0, 2.0, 3.0]


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (([1.0, np.nan, 3.0], [0, 0, 1], 1, 1), ArgumentError, "v holds nan at 1"),
        (([1.0, np.inf, 3.0], [0, 0, 1], 1, 1), ArgumentError, "v holds inf at 1"),
        ((["a", "b", "c"], [0, 0, 1], 1, 1), ArgumentError, "something else than numbers"),
        (([V], [0, 0, 1], 1, 1), ArgumentError, r"v has shape \(1, 3\)"),
        (([], [], 1, 1), ArgumentError, r"v has shape \(0,\)"),
        ((V, [0, 0, 1], 0, 1), ArgumentError, "max_columns is 0; .* from 1 to 3"),
        ((V, [0, 0, 1], 4, 1), ArgumentError, "max_columns is 4; .* from 1 to 3"),
        ((V, [[0], [2]], 3, 1), ArgumentError, "max_columns is 3; .* from 1 to 2"),
        ((V, [0, 0, 1], 1.5, 1), ArgumentError, "max_columns is 1.5"),
        ((V, [0, 0, 1], 1, -1), ArgumentError, "max_groups is -1; .* from 1 to 2"),
        ((V, [0, 0, 1], 1, 3), ArgumentError, "max_groups is 3; .* from 1 to 2"),
        ((V, [0, 0, 1], 1, None), ArgumentError, "max_groups is None"),
        ((V, [0, 0], 1, 1), GroupError, r"shape \(2,\)"),
        ((V, [0.0, 0.0, 1.0], 1, 1), GroupError, "type float64"),
        ((V, ["a", "a", "b"], 1, 1), GroupError, "number of a group"),
        ((V, None, 1, 1), GroupError, "number of a group"),
        ((V, [0, 0, -1], 1, 1), GroupError, "groups holds -1"),
        ((V, [0, 0, 3], 1, 1), GroupError, "groups holds 3; 3 entries lie in groups 0 to 2"),
        ((V, [0, 0, 2], 1, 1), GroupError, "no entry in group 1"),
        ((V, [[0, 1], []], 1, 1), GroupError, "group 1 is .*at least one index"),
        ((V, {}, 1, 1), GroupError, "there is no group"),
        ((V, {"a": [0, 1], "b": 2}, 1, 1), GroupError, "group 'b' is 2"),
        ((V, {"a": [0, 1], "b": ["x"]}, 1, 1), GroupError, "group 'b' is"),
        ((V, {"a": [0, 1], "b": [3]}, 1, 1), GroupError, "group 'b' has index 3.* 0 to 2"),
        ((V, {"a": [0, 1], "b": [-1]}, 1, 1), GroupError, "group 'b' has index -1"),
        ((V, {"a": [0, 1], "b": [1, 2]}, 1, 1), GroupError, "entry 1 .* 'a' and in group 'b'"),
        ((V, {"a": [0, 0], "b": [1, 2]}, 1, 1), GroupError, "group 'a' names entry 0 twice"),
    ],
)
def test_refuses(arguments, error, message):
    for call in (sght_project, sght_table):
        with pytest.raises(error, match=message):
            call(*arguments)


@pytest.mark.parametrize("limits", [(3, 1), (2, 3), (0, 1), (1, 0), (True, 1)])
def test_table_refuses_limits_beyond_its_own(limits):
    table = sght_table(V, [0, 0, 1], 2, 2)
    for call in (table.support, table.project):
        with pytest.raises(ArgumentError, match="must be a whole number from 1 to 2"):
            call(*limits)
