"""How much memory a replay takes, said before it is taken, and refused with the numbers when it does not fit.
Owns the options and the one table of arrays the store is allocated from; does not know what is written into them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil
from pathlib import Path

import numpy as np

from hotloop.core.errors import UserError
from hotloop.core.options import option
from hotloop.core.types import EnvSpec

HEADROOM = 0.9  # share of the free memory a replay may take; the rest is for networks, workers and the page cache


@dataclass(frozen=True)
class Options:
    """The replay's part of a config."""

    capacity: int = option(100_000, "transitions kept over all lanes, rounded up to a multiple of the lanes", ge=1)
    n_step: int = option(1, "rewards summed before the value of the next observation", ge=1)
    truncated_share: float = option(
        1 / 16,
        "share of slots with room for a final observation; if more episodes are cut, old transitions leave early",
        gt=0,
        le=1,
    )
    hindsight: int = option(
        0, "samples with a goal that their episode reached later, for each with its own goal; 0: none", ge=0
    )
    max_memory_gb: float | None = option(None, "refuse a replay that needs more, even if the machine has it", gt=0)


@dataclass(frozen=True)
class Row:
    """One array of the store."""

    name: str
    shape: tuple[int, ...]
    dtype: str

    @property
    def bytes(self) -> int:
        return int(np.prod(self.shape, dtype=np.int64)) * np.dtype(self.dtype).itemsize


@dataclass(frozen=True)
class MemoryPlan:
    """The arrays of a store, before they exist. Letters: N lanes, S slots per lane, R final rows."""

    asked: int  # capacity as the options say it
    lanes: int  # N
    per_lane: int  # transitions a lane keeps that may be sampled
    slots_per_lane: int  # S: and those that frame stacks, n-step and the newest observation need besides
    final_rows: int  # R: final observations of truncated transitions
    rows: tuple[Row, ...]

    @property
    def capacity(self) -> int:
        """Transitions that may be sampled when full: the capacity asked for, rounded up to whole lanes."""
        return self.lanes * self.per_lane

    @property
    def total(self) -> int:
        """Bytes"""
        return sum(row.bytes for row in self.rows)

    def text(self) -> str:
        """A small table, one array per line."""
        rounded = "" if self.capacity == self.asked else f", {self.asked:,} asked"
        head = f"replay: {self.capacity:,} transitions ({self.lanes} lanes x {self.per_lane:,}{rounded})"
        cells = [(r.name, " x ".join(map(str, r.shape)), r.dtype, in_units(r.bytes)) for r in self.rows]
        cells.append(("total", "", "", in_units(self.total)))
        wide = [max(len(cell[i]) for cell in cells) for i in range(4)]
        lines = [f"  {a:<{wide[0]}}  {b:<{wide[1]}}  {c:<{wide[2]}}  {d:>{wide[3]}}" for a, b, c, d in cells]
        return "\n".join([head, *lines])


def plan(spec: EnvSpec, options: Options, lanes: int) -> MemoryPlan:
    """The table of arrays for this environment, these options and this number of lanes."""
    deepest = max(field.stack for field in spec.observation)
    per_lane = ceil(options.capacity / lanes)
    # When full, the oldest transition looks back deepest-1 frames, the newest looks n observations ahead.
    slots = per_lane + (deepest - 1) + options.n_step
    # N * n rows at the least: then a lane always has a transition to sample, even if every step is truncated.
    finals = max(ceil(options.truncated_share * lanes * slots), lanes * options.n_step)
    mask_bytes = ceil(spec.num_actions / 8)

    rows = [Row(f"obs.{f.name}", (lanes, slots, *f.shape), f.dtype) for f in spec.observation]
    rows += [Row(f"final.{f.name}", (finals, *f.shape), f.dtype) for f in spec.observation]
    rows += [
        Row("action", (lanes, slots), smallest_unsigned(spec.num_actions)),
        Row("reward", (lanes, slots), "float32"),
        Row("end", (lanes, slots), "uint8"),  # 0 the episode goes on, 1 terminated, 2 truncated
        Row("final_row", (lanes, slots), "int32"),  # where the final observation lies; -1 none
        Row("final_owner", (finals, 2), "int64"),  # step and lane of the transition a final row belongs to
        Row("cursor", (4,), "int64"),  # see nstep.py
    ]
    if spec.masked:
        rows += [Row("mask", (lanes, slots, mask_bytes), "uint8"), Row("final_mask", (finals, mask_bytes), "uint8")]
    return MemoryPlan(options.capacity, lanes, per_lane, slots, finals, tuple(rows))


def refuse(planned: MemoryPlan, spec: EnvSpec, options: Options, free: int | None = None) -> None:
    """Raise UserError if the plan does not fit. `free`: bytes this process may still take, by default measured."""
    if free is None:
        free = available()
    limit, why = None, ""
    if free is not None:
        limit, why = int(free * HEADROOM), f"{in_units(free)} are free and a tenth is left for the rest"
    if options.max_memory_gb is not None and (limit is None or options.max_memory_gb * 1e9 < limit):
        limit, why = int(options.max_memory_gb * 1e9), f"replay.max_memory_gb = {options.max_memory_gb:g}"
    if limit is None or planned.total <= limit:
        return
    fits = largest_capacity(spec, options, planned.lanes, limit)
    way_out = f"the largest that fits: replay.capacity = {fits}" if fits else "not even one transition per lane fits"
    raise UserError(
        f"option replay.capacity = {options.capacity}: the replay needs {in_units(planned.total)}, but {why}; {way_out}"
    )


def largest_capacity(spec: EnvSpec, options: Options, lanes: int, limit: int) -> int:
    """The largest capacity, in whole lanes, whose plan takes at most `limit` bytes; 0 where none does."""
    low, high = 0, ceil(options.capacity / lanes)
    while low < high:
        middle = (low + high + 1) // 2
        if plan(spec, replace(options, capacity=middle * lanes), lanes).total <= limit:
            low = middle
        else:
            high = middle - 1
    return low * lanes


def available(root: Path = Path("/")) -> int | None:
    """Bytes this process may still take: what the kernel calls available, or less where a control group (version
    1 or 2) says so. None where the system says neither."""
    found = []
    for line in _lines(root / "proc/meminfo"):
        if line.startswith("MemAvailable:"):
            found.append(int(line.split()[1]) * 1024)
    groups = root / "sys/fs/cgroup"
    for line in _lines(root / "proc/self/cgroup"):
        _, kinds, path = line.split(":", 2)
        if kinds == "":
            found += _rooms(groups, path, "memory.max", "memory.current", "inactive_file")
        elif "memory" in kinds.split(","):
            found += _rooms(
                groups / "memory", path, "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"
            )
    return max(0, min(found)) if found else None


def _rooms(mount: Path, path: str, limit: str, usage: str, cache: str) -> list[int]:
    """Room left in a control group and in each above it. Inside a container `path` may not exist: its top does."""
    rooms = []
    here = mount / path.strip("/")
    for group in (here, *here.parents):
        if group != mount and mount not in group.parents:
            break
        most, used = _lines(group / limit), _lines(group / usage)
        if most and used and most[0] != "max":
            stat = dict(line.split() for line in _lines(group / "memory.stat"))
            # The page cache counts as used, but its cold part is given back on demand.
            rooms.append(int(most[0]) - int(used[0]) + int(stat.get(cache, 0)))
    return rooms


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text().splitlines()
    except OSError:
        return []


def smallest_unsigned(num_actions: int) -> str:
    """The smallest dtype that holds the actions 0 … A-1."""
    return str(np.min_scalar_type(max(num_actions - 1, 0)))


def in_units(size: int) -> str:
    """1234567 -> '1.2 MB'"""
    value = float(size)
    for unit in ("B", "KB", "MB", "GB"):
        if value < 999.5:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:.1f} TB"
