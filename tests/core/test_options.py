"""Dataclasses ⇄ nested dicts ⇄ text: TOML and flags give the same values, or the same one-line error."""

from __future__ import annotations

import datetime
import math
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hotloop.core import toml
from hotloop.core.errors import UserError
from hotloop.core.options import from_dict, option, shown, to_dict


@dataclass(frozen=True)
class Inner:
    rate: float = option(0.5, "a rate", gt=0, le=1)
    sizes: tuple[int, ...] = option((2, 3), "sizes", ge=1)


@dataclass(frozen=True)
class Outer:
    steps: int = option(10, "steps", ge=1, le=2**63 - 1)
    name: str = option("x", "a name")
    on: bool = option(True, "a flag")
    kind: Literal["a", "b"] = option("a", "a kind")
    limit: float | None = option(None, "a limit", gt=0)
    inner: Inner = Inner()
    free: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Required:
    must: int


def message(data: Any) -> str:
    with pytest.raises(UserError) as error:
        from_dict(Outer, data)
    text = str(error.value)
    assert "\n" not in text and len(text) < 300
    return text


@pytest.mark.parametrize(
    ("key", "given", "value"),
    [
        ("steps", "5", 5),
        ("steps", 5.0, 5),
        ("steps", "1e6", 1_000_000),
        ("steps", "1_000", 1_000),
        ("steps", np.int64(7), 7),
        ("steps", "9007199254740993", 9007199254740993),  # no float holds it
        ("steps", str(2**63 - 1), 2**63 - 1),
        ("name", "", ""),
        ("on", "no", False),
        ("on", "TRUE", True),
        ("on", 0, False),
        ("on", np.True_, True),
        ("kind", "b", "b"),
        ("limit", "none", None),
        ("limit", None, None),
        ("limit", "2", 2.0),
        ("free", {"a": {"b": [1, None]}}, {"a": {"b": [1, None]}}),
    ],
)
def test_values(key, given, value):
    got = getattr(from_dict(Outer, {key: given}), key)
    assert got == value and type(got) is type(value)


@pytest.mark.parametrize("given", ["4,5", " 4 , 5,", [4, 5], (4.0, "5")])
def test_lists(given):
    assert from_dict(Outer, {"inner": {"sizes": given}}).inner.sizes == (4, 5)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ({"steps": "many"}, "option steps = 'many': expected a whole number"),
        ({"steps": 1.5}, "option steps = 1.5: expected a whole number"),
        ({"steps": True}, "option steps = True: expected a whole number"),
        ({"steps": math.inf}, "option steps = inf: expected a whole number"),
        ({"steps": 0}, "option steps = 0: must be at least 1"),
        ({"steps": 2**63}, f"option steps = {2**63}: must be at most {2**63 - 1}"),
        ({"steps": "1e19"}, f"option steps = {10**19}: must be at most {2**63 - 1}"),
        ({"steps": [1]}, "option steps = [1]: expected a whole number"),
        ({"name": 5}, "option name = 5: expected text"),
        ({"on": "maybe"}, "option on = 'maybe': expected true or false"),
        ({"on": 2}, "option on = 2: expected true or false"),
        ({"kind": "c"}, "option kind = 'c': choose one of a, b"),
        ({"kind": ["a"]}, "option kind = ['a']: choose one of a, b"),
        ({"limit": 0}, "option limit = 0.0: must be more than 0"),
        ({"limit": "inf"}, "option limit = 'inf': expected a number"),
        ({"limit": math.nan}, "option limit = nan: expected a number"),
        ({"limit": datetime.date(2020, 1, 1)}, "option limit = datetime.date(2020, 1, 1): expected a number"),
        ({"inner": 5}, "option inner is a group; got 5"),
        ({"inner": {"rate": 1.01}}, "option inner.rate = 1.01: must be at most 1"),
        ({"inner": {"sizes": 4}}, "option inner.sizes = 4: expected a list such as 128,128"),
        ({"inner": {"sizes": "4,0"}}, "option inner.sizes = 0: must be at least 1"),
        ({"inner": {"ratte": 1}}, "unknown option 'inner.ratte'; did you mean 'inner.rate'?"),
        ({"free": "x"}, "option free is a group; got 'x'"),
        ({"zzz": 1}, "unknown option 'zzz'; known: free, inner, kind, limit, name, on, steps"),
        ({1: 1}, "unknown option '1'; known: free, inner, kind, limit, name, on, steps"),
    ],
)
def test_errors_name_the_path_the_value_and_the_way_out(data, said):
    assert message(data) == said


def test_long_and_broken_values_are_shown_on_one_short_line():
    class Broken:
        def __repr__(self):
            raise RuntimeError

    assert "…: expected a whole number" in message({"steps": "x" * 10_000})
    assert "cannot be shown" in message({"steps": Broken()})
    assert "cannot be shown" in message({"name": 10**5_000})
    assert "\n" not in shown(np.zeros((9, 9)))


def test_what_is_missing_comes_from_the_base_or_the_default():
    base = Outer(steps=3, inner=Inner(rate=0.25))
    assert from_dict(Outer, {"inner": {"sizes": [9]}}, base=base) == Outer(steps=3, inner=Inner(0.25, (9,)))
    with pytest.raises(UserError, match="option must is required"):
        from_dict(Required, {})


@given(
    st.builds(
        Outer,
        steps=st.integers(1, 2**63 - 1),
        name=st.text(st.characters(exclude_categories=["Cs"])),
        on=st.booleans(),
        kind=st.sampled_from("ab"),
        limit=st.none() | st.floats(1e-300, 1e300),
        inner=st.builds(Inner, st.floats(1e-9, 1), st.lists(st.integers(1, 2**62), max_size=4).map(tuple)),
    )
)
def test_round_trips(options):
    assert from_dict(Outer, to_dict(options)) == options
    assert from_dict(Outer, toml.loads(toml.dumps(to_dict(options)))) == options


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary() | st.dates(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@given(st.dictionaries(st.sampled_from([*Outer.__dataclass_fields__, "other"]), values))
def test_anything_else_is_a_user_error_of_one_line(data):
    try:
        got = from_dict(Outer, data)
    except UserError as error:
        assert "\n" not in str(error)
    else:
        assert from_dict(Outer, to_dict(got)) == got
