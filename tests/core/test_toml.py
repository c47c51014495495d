"""What is written is what is read back."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hotloop.core import toml

text = st.text(st.characters(exclude_categories=["Cs"]))  # a lone surrogate has no UTF-8
scalars = st.one_of(st.booleans(), st.integers(), st.floats(allow_nan=False), text)
values = st.recursive(scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(text, inner, max_size=4))


@settings(deadline=None)
@given(st.dictionaries(text, values))
def test_round_trip(data):
    written = toml.dumps(data)
    read = toml.loads(written)
    assert read == data
    assert repr(sorted_deep(read)) == repr(sorted_deep(data))  # 1 is not 1.0, 0.0 is not -0.0, True is not 1
    assert written.encode()


def sorted_deep(value):
    """Dicts as lists of pairs, so that repr compares types and not the order of keys."""
    if isinstance(value, dict):
        return [(k, sorted_deep(value[k])) for k in sorted(value)]
    return [sorted_deep(v) for v in value] if isinstance(value, list) else value


def test_layout():
    data = {"seed": 3, "learn": {"lr": 1e-3, "layers": (64, 64), "adam": {"eps": 1e-8}}, "env": {}, "name": "a b"}
    assert toml.dumps(data) == (
        'seed = 3\nname = "a b"\n\n[learn]\nlr = 0.001\nlayers = [64, 64]\n\n[learn.adam]\neps = 1e-08\n\n[env]\n'
    )


def test_values_without_a_toml_type():
    data = {"capacity": None, "path": Path("a/b"), "n": np.int64(3), "x": np.float32(0.5), "on": np.bool_(True)}
    assert toml.loads(toml.dumps(data)) == {"capacity": "none", "path": "a/b", "n": 3, "x": 0.5, "on": True}
    assert math.isnan(toml.loads(toml.dumps({"x": math.nan}))["x"])


@pytest.mark.parametrize("bad", [{"x": object()}, {1: 2}, {"x": {3: 4}}, {"x": np.zeros(2)}])
def test_what_cannot_be_held_is_refused(bad):
    with pytest.raises(TypeError, match="TOML"):
        toml.dumps(bad)
