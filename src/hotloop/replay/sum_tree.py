"""A binary tree whose leaves are priorities and whose inner nodes are the sums of their two children, in float64. Node
i has children 2i and 2i + 1, the root is node 1, leaf k is node L + k. A sum is always made anew from its children
and never adjusted by a difference, so it cannot drift. Knows no replay: a leaf is a number from 0 on."""

from __future__ import annotations

import numpy as np

from hotloop.core.jit import kernel

_ONE = np.uint64(1)
TOGETHER = 64  # draws that go down the tree side by side, so that the waits for memory overlap


def leaves_for(entries: int) -> int:
    """L: the smallest power of two that has room."""
    return 1 << max(0, entries - 1).bit_length()


@kernel
def rebuild(tree):
    """All sums from the leaves."""
    for node in range(tree.shape[0] // 2 - 1, 0, -1):
        tree[node] = tree[2 * node] + tree[2 * node + 1]


@kernel
def fill(tree, first, count, value):
    """Leaves first … first + count - 1 become `value`."""
    if count == 0:
        return
    low = tree.shape[0] // 2 + first
    high = low + count - 1
    for node in range(low, high + 1):
        tree[node] = value
    while low > 1:
        low, high = low >> 1, high >> 1
        for node in range(low, high + 1):
            tree[node] = tree[2 * node] + tree[2 * node + 1]


@kernel
def put(tree, nodes, values, count):
    """The first `count` leaves named in `nodes`, as numbers of nodes, become `values`; of one that is named twice the
    later value stays. `nodes` is used up."""
    if count == 0:
        return
    for i in range(count):
        tree[nodes[i]] = values[i]
    width = tree.shape[0] // 4
    while width > count:  # as long as the level above has more nodes than were touched
        for i in range(count):
            node = nodes[i] >> 1
            nodes[i] = node
            tree[node] = tree[2 * node] + tree[2 * node + 1]
        width >>= 1
    for node in range(2 * width - 1, 0, -1):
        tree[node] = tree[2 * node] + tree[2 * node + 1]


@kernel
def find(tree, targets, nodes):
    """targets [M] in [0, root) -> nodes [M]: the leaf in whose share of the sum each lies. Never a leaf that is zero,
    whatever rounding does to a target."""
    half = np.uint64(tree.shape[0] // 2)
    at, rest = np.empty(TOGETHER, np.uint64), np.empty(TOGETHER)
    for begin in range(0, targets.shape[0], TOGETHER):
        count = min(TOGETHER, targets.shape[0] - begin)
        for i in range(TOGETHER):
            at[i] = _ONE
            rest[i] = targets[begin + i] if i < count else 0.0
        level = _ONE
        while level < half:
            for i in range(TOGETHER):  # a number known beforehand, and no branch: the compiler makes vectors of it
                left = at[i] << _ONE
                below = tree[left]
                right = rest[i] >= below
                rest[i] -= below if right else 0.0
                at[i] = left | np.uint64(right)
            level <<= _ONE
        for i in range(count):
            node = np.int64(at[i])
            nodes[begin + i] = node if tree[node] > 0.0 else _find_slowly(tree, targets[begin + i])


@kernel
def _find_slowly(tree, target):
    """The same, but for looking right before going there: where nothing is, the way is left."""
    node = 1
    while node < tree.shape[0] // 2:
        node *= 2
        if target >= tree[node] and tree[node + 1] > 0.0:
            target -= tree[node]
            node += 1
    return node
