"""The memory plan: what it says is what is taken, and what does not fit is refused with the numbers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from hotloop.core.errors import UserError
from hotloop.core.options import from_dict, to_dict
from hotloop.core.types import EnvSpec, Field
from hotloop.replay.plan import HEADROOM, Options, available, in_units, largest_capacity, plan, refuse
from hotloop.replay.store import Store

PIXELS = EnvSpec("pixels", (Field("obs", (84, 84), "uint8", stack=4),), 6, masked=True)
TINY = EnvSpec("tiny", (Field("obs", (2,), "float32"), Field("more", (), "int64")), 9, masked=True)


@pytest.mark.parametrize("options", [Options(capacity=101), Options(capacity=7, n_step=5, truncated_share=1.0)])
@pytest.mark.parametrize("lanes", [1, 3, 8])
def test_planned_bytes_are_real_bytes(options, lanes):
    planned = plan(TINY, options, lanes)
    arrays = Store(TINY, options, lanes, 0.99).state()
    assert planned.total == sum(array.nbytes for array in arrays.values())
    assert {row.name: row.bytes for row in planned.rows} == {name: array.nbytes for name, array in arrays.items()}
    assert in_units(planned.total) in planned.text().splitlines()[-1]


def test_frames_are_stored_once():
    planned = plan(PIXELS, Options(capacity=10_000), 8)
    per_transition = planned.total / planned.capacity
    assert per_transition < 84 * 84 * 1.1  # two stacks of four would be eight times that


def test_capacity_is_rounded_up_to_whole_lanes_and_the_text_says_so():
    planned = plan(TINY, Options(capacity=100), 8)
    assert planned.capacity == 104
    assert "104 transitions (8 lanes x 13, 100 asked)" in planned.text()
    assert "asked" not in plan(TINY, Options(capacity=104), 8).text()


def test_what_does_not_fit_is_refused_in_one_line_with_the_numbers_and_the_way_out():
    options = Options(capacity=1_000_000)
    planned = plan(PIXELS, options, 8)
    with pytest.raises(UserError) as refused:
        refuse(planned, PIXELS, options, free=2_000_000_000)
    said = str(refused.value)
    assert "\n" not in said
    assert "replay.capacity = 1000000" in said and in_units(planned.total) in said and "2.0 GB are free" in said
    fits = int(said.rsplit("replay.capacity = ", 1)[1])
    assert fits % 8 == 0
    refuse(plan(PIXELS, replace(options, capacity=fits), 8), PIXELS, replace(options, capacity=fits), 2_000_000_000)
    assert plan(PIXELS, replace(options, capacity=fits + 8), 8).total > 2_000_000_000 * HEADROOM


def test_the_users_own_limit_counts_and_is_named():
    options = Options(capacity=100_000, max_memory_gb=0.1)
    with pytest.raises(UserError, match=r"replay.max_memory_gb = 0.1; the largest that fits: replay.capacity = \d+"):
        Store(PIXELS, options, 8, 0.99)


def test_a_machine_that_holds_nothing():
    options = Options(capacity=100)
    with pytest.raises(UserError, match="not even one transition per lane fits"):
        refuse(plan(PIXELS, options, 4), PIXELS, options, free=1000)
    assert largest_capacity(PIXELS, options, 4, 1000) == 0


def write(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


MEMINFO = {"proc/meminfo": "MemTotal: 16000 kB\nMemFree: 1000 kB\nMemAvailable: 8000 kB\n"}


def test_available_without_control_groups_and_without_linux(tmp_path):
    assert available(tmp_path) is None
    assert available(write(tmp_path, MEMINFO)) == 8000 * 1024


def test_available_under_control_groups_version_2(tmp_path):
    root = write(
        tmp_path,
        MEMINFO
        | {
            "proc/self/cgroup": "0::/a/b\n",
            "sys/fs/cgroup/a/memory.max": "1000000\n",
            "sys/fs/cgroup/a/memory.current": "700000\n",
            "sys/fs/cgroup/a/memory.stat": "anon 5\ninactive_file 50000\n",
            "sys/fs/cgroup/a/b/memory.max": "max\n",
            "sys/fs/cgroup/a/b/memory.current": "700000\n",
        },
    )
    assert available(root) == 350_000


def test_available_under_control_groups_version_1_seen_from_inside_a_container(tmp_path):
    root = write(
        tmp_path,
        MEMINFO
        | {
            "proc/self/cgroup": "5:cpu:/x\n4:memory:/docker/not-mounted-here\n0::/\n",
            "sys/fs/cgroup/memory/memory.limit_in_bytes": "2000000\n",
            "sys/fs/cgroup/memory/memory.usage_in_bytes": "1900000\n",
            "sys/fs/cgroup/memory/memory.stat": "cache 1\ntotal_inactive_file 5\n",
        },
    )
    assert available(root) == 100_005


def test_options_go_to_a_dict_and_back():
    options = Options(capacity=5, n_step=3, max_memory_gb=2.0)
    assert from_dict(Options, to_dict(options)) == options
    with pytest.raises(UserError, match=r"replay\.n_step"):
        from_dict(Options, {"n_step": 0}, "replay.")
