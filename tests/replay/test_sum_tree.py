"""The sum tree against an array of its leaves and that array's sums."""

from __future__ import annotations

import math

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from scipy.stats import chisquare

from hotloop.replay import sum_tree

VALUES = st.one_of(
    st.just(0.0), st.floats(1e-30, 1e-20), st.floats(0.1, 10.0), st.floats(1e20, 1e38), st.just(1.0)
)  # float32 holds priorities up to 3.4e38


def tree_of(leaves: list[float]) -> np.ndarray:
    size = sum_tree.leaves_for(len(leaves))
    tree = np.zeros(2 * size)
    tree[size : size + len(leaves)] = leaves
    sum_tree.rebuild(tree)
    return tree


def assert_sound(tree: np.ndarray, leaves: np.ndarray) -> None:
    half = len(tree) // 2
    np.testing.assert_array_equal(tree[half : half + len(leaves)], leaves)
    assert not tree[half + len(leaves) :].any()
    for node in range(1, half):
        assert tree[node] == tree[2 * node] + tree[2 * node + 1]
    assert tree[1] == pytest.approx(math.fsum(leaves), rel=half.bit_length() * 2**-53)


def find(tree: np.ndarray, targets: list[float]) -> np.ndarray:
    nodes = np.full(len(targets), -1)
    sum_tree.find(tree, np.array(targets), nodes)
    return nodes - len(tree) // 2


@settings(max_examples=150, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_any_sequence_of_changes_leaves_the_sums_of_the_array(data):
    entries = data.draw(st.integers(1, 70))
    leaves = np.zeros(entries)
    tree = tree_of(leaves.tolist())
    for _ in range(data.draw(st.integers(1, 6))):
        if data.draw(st.booleans()):
            first = data.draw(st.integers(0, entries - 1))
            count = data.draw(st.integers(0, entries - first))
            value = data.draw(VALUES)
            sum_tree.fill(tree, first, count, value)
            leaves[first : first + count] = value
        else:
            changes = data.draw(st.lists(st.tuples(st.integers(0, entries - 1), VALUES), max_size=90))
            extra = data.draw(st.integers(0, 3))  # room that is not used
            names = np.array([k for k, _ in changes] + [0] * extra, np.int64) + len(tree) // 2
            values = np.array([v for _, v in changes] + [math.nan] * extra)
            sum_tree.put(tree, names, values, len(changes))
            for k, value in changes:  # of a leaf named twice, the later value stays
                leaves[k] = value
        assert_sound(tree, leaves)
    assert (tree_of(leaves.tolist()) == tree).all()


@settings(max_examples=300, deadline=None, derandomize=True)
@given(st.lists(VALUES, min_size=1, max_size=70), st.lists(st.floats(0, 1), min_size=1, max_size=150))
def test_a_target_is_found_in_its_leaf_s_share(leaves, shares):
    tree = tree_of(leaves)
    if not tree[1]:
        return
    targets = [share * tree[1] for share in shares]  # the sum itself among them
    ends = np.cumsum(leaves)
    slack = len(leaves) * 2**-52 * tree[1]
    for target, k in zip(targets, find(tree, targets), strict=True):
        assert leaves[k] > 0
        assert ends[k] - leaves[k] - slack <= target <= ends[k] + slack


def test_nothing_is_found_where_there_is_nothing_whatever_rounding_does():
    """0.1 + 0.2 + 0.3 is another number from the other end: a target at the very end of the sum must not fall off."""
    leaves = [0.1, 0.2, 0.3, 0.0, 0.7, 0.0, 0.0, 0.0]
    tree = tree_of(leaves)
    targets = [math.nextafter(tree[1], 0), tree[1], tree[1] * 1.0001, 0.0, 0.1, tree[2], math.nextafter(tree[2], 0)]
    assert find(tree, targets).tolist() == [4, 4, 4, 0, 1, 4, 2]
    assert find(tree_of([0.0, 0.0, 1e-30, 0.0]), [0.0, 1e-30]).tolist() == [2, 2]
    assert find(tree_of([5.0]), [0.0, 4.9]).tolist() == [0, 0]


def test_leaves_are_found_as_often_as_they_weigh():
    rng = np.random.default_rng(0)
    leaves = rng.random(300) ** 3
    leaves[rng.random(300) < 0.3] = 0
    tree = tree_of(leaves.tolist())
    draws = 200_000
    found = np.bincount(find(tree, rng.random(draws) * tree[1]), minlength=300)
    some = leaves > 0
    assert not found[~some].any()
    assert chisquare(found[some], draws * leaves[some] / leaves.sum()).pvalue > 0.001


@pytest.mark.slow
def test_a_hundred_million_changes_do_not_drift():
    rng = np.random.default_rng(1)
    entries, each = 100_000, 2_000  # few enough that both ways of summing up are taken
    tree, half = tree_of([1.0] * entries), sum_tree.leaves_for(entries)
    for _ in range(100_000_000 // each):
        values = 10.0 ** rng.uniform(-12, 12, each)
        sum_tree.put(tree, half + rng.integers(0, entries, each), values, each)
    leaves = tree[half : half + entries]
    assert tree[1] == pytest.approx(math.fsum(leaves), rel=half.bit_length() * 2**-53)
    sum_tree.put(tree, half + np.arange(entries), np.full(entries, 1e-12), entries)
    assert tree[1] == pytest.approx(entries * 1e-12, rel=half.bit_length() * 2**-53)
