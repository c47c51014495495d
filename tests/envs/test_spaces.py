"""Every observation space is copied into its fields without a change, one lane at a time or as a batch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector.utils import concatenate, create_empty_array
from hypothesis import given, settings
from hypothesis import strategies as st

from hotloop.core import schema
from hotloop.core.errors import UserError
from hotloop.core.types import Field
from hotloop.envs._spaces import actions, layout
from tests.references.gym_envs import SPACES, box


def leaves(space: Any, value: Any, path: str = "") -> list[tuple[str, Any, Any]]:
    """(name, space, value) of each part, written for reading."""
    if isinstance(space, spaces.Dict):
        children: Any = space.spaces.items()
    elif isinstance(space, spaces.Tuple):
        children = enumerate(space.spaces)
    else:
        return [(path or "obs", space, value)]
    return [leaf for k, s in children for leaf in leaves(s, value[k], f"{path}.{k}" if path else str(k))]


def expected(field: Field, space: Any, value: Any) -> np.ndarray:
    """What the field should hold: Gymnasium's own flattening, and channels before rows and columns."""
    if (
        isinstance(space, spaces.Box)
        and space.dtype == np.uint8
        and len(space.shape) == 3
        and space.shape[-1] in (1, 3, 4)
    ):
        value = np.moveaxis(value, -1, 0)
        return value.reshape(field.shape)
    return spaces.flatten(space, value).astype(field.dtype).reshape(field.shape)


def arrays_of(fields: tuple[Field, ...], lanes: int) -> list[np.ndarray]:
    arrays = [schema.allocate((lanes, *f.shape), f.dtype) for f in fields]
    for array in arrays:
        schema.poison(array)
    return arrays


def boxes() -> st.SearchStrategy:
    shapes = st.sampled_from([(), (1,), (3,), (2, 5), (2, 3, 2), (2, 2, 3), (3, 2, 1), (1, 2, 2, 2)])
    bounds = {
        "float32": [(-1, 1), (-np.inf, np.inf), (0, np.inf)],
        "float64": [(-1, 1), (-np.inf, np.inf)],
        "uint8": [(0, 255), (0, 1), (3, 9)],
        "int8": [(-128, 127)],
        "int16": [(-300, 4)],
        "int32": [(0, 2**31 - 2), (-5, 5)],
        "int64": [(-(2**24), 2**24), (-(2**31), 2**31 - 1)],
        "bool": [(0, 1)],
    }
    kinds = st.sampled_from([(dtype, b) for dtype, choices in bounds.items() for b in choices])
    return st.builds(lambda shape, kind: spaces.Box(*kind[1], shape, np.dtype(kind[0]).type), shapes, kinds)


def singles() -> st.SearchStrategy:
    counts = st.lists(st.integers(1, 4), min_size=1, max_size=3)
    return st.one_of(
        boxes(),
        st.builds(lambda n, start: spaces.Discrete(n, start=start), st.integers(1, 9), st.integers(-3, 3)),
        st.builds(lambda n: spaces.MultiBinary(n), st.sampled_from([1, 3, (2, 2)])),
        st.builds(lambda n, k: spaces.MultiDiscrete(n, start=[k] * len(n)), counts, st.integers(-2, 2)),
        st.builds(lambda n: spaces.MultiDiscrete(np.array([n, n])), counts),
    )


def any_space() -> st.SearchStrategy:
    keys = st.text("abc", min_size=1, max_size=2)
    return st.recursive(
        singles(),
        lambda inner: st.one_of(
            st.builds(lambda d: spaces.Dict(d), st.dictionaries(keys, inner, min_size=1, max_size=3)),
            st.builds(lambda t: spaces.Tuple(t), st.lists(inner, min_size=1, max_size=3)),
        ),
        max_leaves=5,
    )


@settings(max_examples=150, deadline=None)
@given(any_space(), st.integers(0, 2**31 - 1), st.integers(1, 2))
def test_a_space_is_copied_exactly_by_lane_and_by_batch(space, seed, stack):
    try:
        plan = layout(space, stack)
    except UserError as error:
        assert stack > 1 and "no image" in str(error)
        return
    space.seed(seed)
    values = [space.sample() for _ in range(4)]
    by_lane = arrays_of(plan.fields, 4)
    for lane, value in enumerate(values):
        plan.write(value, by_lane, lane)
        parts = leaves(space, value)
        assert [name for name, _, _ in parts] == [f.name for f in plan.fields]
        for f, (_, leaf, part), array in zip(plan.fields, parts, by_lane, strict=True):
            np.testing.assert_array_equal(array[lane], expected(f, leaf, part))

    batch: Any = concatenate(space, values, create_empty_array(space, 4))
    by_batch = arrays_of(plan.fields, 4)
    plan.write_rows(batch, by_batch, slice(None))
    rows = np.random.default_rng(seed).random(4) < 0.5
    by_rows, untouched = arrays_of(plan.fields, 4), arrays_of(plan.fields, 4)
    plan.write_rows(batch, by_rows, rows)
    for a, b, c, old in zip(by_lane, by_batch, by_rows, untouched, strict=True):
        np.testing.assert_array_equal(a, b)
        np.testing.assert_array_equal(c[rows], b[rows])
        np.testing.assert_array_equal(c[~rows], old[~rows])


@pytest.mark.parametrize(
    ("space", "stack", "shape", "dtype", "frames", "scale"),
    [
        ("float32", 1, (4,), "float32", 1, 1),
        ("float64", 1, (2, 3), "float32", 1, 1),
        ("scalar", 1, (1,), "float32", 1, 1),
        ("bytes", 1, (5,), "uint8", 1, 1),
        ("flags", 1, (3,), "uint8", 1, 1),
        ("int8", 1, (3,), "float32", 1, 1),
        ("int64", 1, (2, 2), "float32", 1, 1),
        ("large", 1, (2,), "int32", 1, 1),
        ("grey", 1, (1, 6, 5), "uint8", 1, 1 / 255),
        ("grey", 4, (6, 5), "uint8", 4, 1 / 255),
        ("rgb", 1, (3, 6, 5), "uint8", 1, 1 / 255),
        ("rgb", 4, (3, 6, 5), "uint8", 4, 1 / 255),
        ("chw", 1, (2, 6, 5), "uint8", 1, 1 / 255),
        ("discrete", 1, (5,), "uint8", 1, 1),
        ("multibinary", 1, (2, 3), "uint8", 1, 1),
        ("multidiscrete", 1, (8,), "uint8", 1, 1),
    ],
)
def test_the_field_of_each_space(space, stack, shape, dtype, frames, scale):
    (field,) = layout(SPACES[space], stack).fields
    assert field == Field("obs", shape, dtype, frames, scale)


def test_only_the_images_of_a_dict_are_stacked():
    image, speed = layout(SPACES["dict"], 4).fields
    assert image == Field("image", (4, 4), "uint8", 4, 1 / 255)
    assert speed == Field("speed", (2,), "float32")
    assert layout(SPACES["dict"]).fields[0].shape == (1, 4, 4)


def test_parts_of_nested_spaces_are_named_by_their_path():
    assert [f.name for f in layout(SPACES["nested"]).fields] == ["a.b", "a.c.0", "a.c.1"]
    assert [f.name for f in layout(SPACES["tuple"]).fields] == ["0", "1"]


def test_a_table_of_bytes_is_no_picture():
    (field,) = layout(box(0, 3, (4, 4), np.uint8)).fields
    assert field == Field("obs", (4, 4), "uint8")
    with pytest.raises(UserError, match="no image"):
        layout(box(0, 3, (4, 4), np.uint8), 4)


@pytest.mark.parametrize(
    ("space", "value", "says"),
    [
        ("discrete", 5, "outside its space"),
        ("discrete", -1, "outside its space"),
        ("discrete_from_3", 2, "outside its space"),
        ("discrete", 1.0, "whole numbers"),
        ("discrete", np.array([1]), "shape"),
        ("multidiscrete", np.array([0, 5, 2]), "outside its space"),
        ("multidiscrete", np.array([0, 5]), "shape"),
        ("multibinary", np.array([[0, 1, 2], [0, 0, 0]]), "outside"),
        ("flags", np.array([0, 1, 300]), "outside"),
        ("large", np.array([2**31, 0]), "outside"),
        ("bytes", np.array([0, 0, 0, 0, 256]), "outside"),
        ("tuple", (1,), "lacks one of its entries"),
        ("dict", {"image": np.zeros((4, 4, 1), np.uint8)}, "lacks one of its entries"),
        ("dict", None, "lacks one of its entries"),
        ("float32", np.zeros((1, 4), np.float32), "shape"),
        ("float32", None, "no number"),
    ],
)
def test_a_value_outside_its_space_is_named_in_one_line(space, value, says):
    plan = layout(SPACES[space])
    with pytest.raises(UserError, match=says) as error:
        plan.write(value, arrays_of(plan.fields, 2), 1)
    assert "\n" not in str(error.value)


def test_bools_of_any_make_are_discrete_values():
    plan = layout(spaces.Discrete(2))
    (array,) = arrays = arrays_of(plan.fields, 2)
    plan.write(np.True_, arrays, 0)
    plan.write(True, arrays, 1)
    assert array.tolist() == [[0, 1], [0, 1]]


def test_floats_in_another_precision_and_lists_are_taken():
    plan = layout(SPACES["float32"])
    (array,) = arrays = arrays_of(plan.fields, 3)
    for lane, value in enumerate(([1, 2, 3, 4], np.array([1, 2, 3, 4]), np.array([1, 2, 3, 4.0], ">f8"))):
        plan.write(value, arrays, lane)
    assert array.tolist() == [[1, 2, 3, 4]] * 3


@pytest.mark.parametrize(
    ("space", "first", "last"),
    [
        (spaces.Discrete(3), 0, 2),
        (spaces.Discrete(3, start=-1), -1, 1),
        (spaces.MultiDiscrete([2, 3], start=[0, 5]), [0, 5], [1, 7]),
        (spaces.MultiDiscrete([[2, 1], [1, 2]]), [[0, 0], [0, 0]], [[1, 0], [0, 1]]),
        (spaces.MultiBinary(3), [0, 0, 0], [1, 1, 1]),
        (spaces.MultiDiscrete([64, 64]), [0, 0], [63, 63]),
    ],
)
def test_actions_are_numbered_without_gap_or_repetition(space, first, last):
    plan = actions(space, "X")
    said = [plan.one(i) for i in range(plan.count)]
    assert all(space.contains(a) for a in said)
    assert len({str(np.asarray(a).tolist()) for a in said}) == plan.count
    assert (np.asarray(said[0]).tolist(), np.asarray(said[-1]).tolist()) == (first, last)
    np.testing.assert_array_equal(plan.many(np.arange(plan.count)), np.array(said))
