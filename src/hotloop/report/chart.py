"""What a chart is before anything draws it: plain data, few points, no colours but numbers of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

REST_COLOUR, QUIET_COLOUR = "rest", "quiet"

Colour = int | str


@dataclass(frozen=True)
class Series:
    """One line, band, bar or set of points."""

    kind: str  # line, thin, band, points, bars, area
    x: Any
    y: Any
    name: str = ""
    colour: Colour = 0
    low: Any = None  # of a band, and the error bars of points
    high: Any = None
    colours: Sequence[Colour] = ()  # of bars one by one
    legend: bool = False

    def plain(self) -> dict[str, Any]:
        arrays = {k: compact(getattr(self, k)) for k in ("x", "y", "low", "high") if getattr(self, k) is not None}
        rest = {"name": self.name, "colours": list(self.colours)}
        return {"kind": self.kind, "colour": self.colour, **arrays, **{k: v for k, v in rest.items() if v}}


@dataclass(frozen=True)
class Chart:
    title: str
    series: Sequence[Series]
    x: str = "env steps"
    y: str = ""
    note: str = ""
    size: str = "small"  # small: three in a row; half; wide
    zero: bool = False  # the axis begins at 0
    percent: bool = False
    log: bool = False
    line: float | None = None  # a horizontal mark
    stacked: bool = False
    across: bool = False  # bars lie

    def plain(self) -> dict[str, Any]:
        told = {k: getattr(self, k) for k in ("x", "y", "size", "zero", "percent", "log", "stacked", "across")}
        told |= {"line": compact([self.line])[0]} if self.line is not None else {}
        return {**{k: v for k, v in told.items() if v}, "series": [s.plain() for s in self.series]}


@dataclass(frozen=True)
class Part:
    """Charts under one heading."""

    title: str
    charts: Sequence[Chart]
    note: str = ""


def compact(values: Any) -> list[Any]:
    """Six digits that count, whole numbers without a point, gaps as null."""
    out: list[Any] = []
    for value in values.tolist() if isinstance(values, np.ndarray) else values:
        if isinstance(value, float):
            short = float(f"{value:.6g}") if math.isfinite(value) else None
            value = int(value) if short is not None and value == int(value) and abs(value) < 1e15 else short
        out.append(value)
    return out


def words(key: str) -> str:
    plain = key.replace("_", " ").replace("/", " · ")
    return plain[:1].upper() + plain[1:]
