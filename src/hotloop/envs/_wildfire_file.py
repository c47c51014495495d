"""Landscapes that users bring: an .npz file of layers, checked so that whatever is wrong is named by layer and cell.
Knows no fire."""

from __future__ import annotations

import os
import zipfile
from functools import lru_cache

import numpy as np

from hotloop.core.errors import UserError, unknown
from hotloop.envs._wildfire_land import LAYERS

SMALLEST, LARGEST = 10, 60  # cells along a side
RANGES = {
    "vegetation": (0, 3, "0 none, 1 agricultural, 2 thickets, 3 pine"),
    "canopy": (0, 1, "share of the ground that is covered"),
    "elevation": (-500, 9000, "metres"),
    "wind_speed": (0, 40, "metres per second"),
    "wind_from": (0, 360, "degrees clockwise from north"),
}


def read(path: str) -> np.ndarray:
    """[M, 5, H, W] float32: the landscapes of a file, one where its layers are [H, W]."""
    try:
        stamp = os.stat(path).st_mtime_ns
    except OSError as why:
        raise UserError(f"env.landscape = {path!r}: {why.strerror or why}") from None
    return _read(path, stamp)


@lru_cache(maxsize=4)
def _read(path: str, stamp: int) -> np.ndarray:
    layers = _layers(path)
    for name, layer in layers.items():
        _check(path, name, layer)
    stacked = np.stack([layers[name].astype(np.float32) for name in LAYERS], axis=-3)
    land = stacked if stacked.ndim == 4 else stacked[None]
    bare = np.flatnonzero((land[:, 0] == 0).all(axis=(1, 2)))
    if len(bare):
        which = f" of landscape {bare[0]}" if len(land) > 1 else ""
        raise UserError(f"{path}, layer vegetation{which}: every cell is 0, so that nothing can burn")
    land.setflags(write=False)
    return land


def _layers(path: str) -> dict[str, np.ndarray]:
    """The arrays of the file, all there and all of one shape."""
    try:
        file = np.load(path, allow_pickle=False)
        if not isinstance(file, np.lib.npyio.NpzFile):
            raise ValueError
        with file:
            arrays = {name: file[name] for name in file.files}
    except (OSError, ValueError, EOFError, zipfile.BadZipFile):
        raise UserError(f"{path} is no .npz file of number layers; write one with numpy.savez") from None
    for name in LAYERS:
        if name not in arrays:
            raise UserError(f"{path} has no layer {name}; it needs {', '.join(LAYERS)}")
    for name in arrays:
        if name not in LAYERS:
            raise unknown(f"layer in {path}", name, LAYERS)
    first = arrays[LAYERS[0]].shape
    if len(first) not in (2, 3) or not all(SMALLEST <= side <= LARGEST for side in first[-2:]) or 0 in first:
        raise UserError(
            f"{path}, layer {LAYERS[0]} has shape {first}; expected (height, width) or (landscapes, height, width), "
            f"height and width from {SMALLEST} to {LARGEST}"
        )
    for name in LAYERS:
        if arrays[name].shape != first:
            raise UserError(f"{path}, layer {name} has shape {arrays[name].shape}, layer {LAYERS[0]} has {first}")
    return {name: arrays[name] for name in LAYERS}


def _check(path: str, name: str, layer: np.ndarray) -> None:
    """Numbers only, and each in its range."""
    if layer.dtype.kind not in "buif":
        raise UserError(f"{path}, layer {name} is of {layer.dtype}; expected numbers")
    low, high, meaning = RANGES[name]
    wrong = ~((layer >= low) & (layer <= high))  # NaN is in no range
    if name == "vegetation":
        wrong |= layer != np.floor(layer)
    if wrong.any():
        *landscape, row, column = (int(k) for k in np.argwhere(wrong)[0])
        where = f"row {row}, column {column}" + (f" of landscape {landscape[0]}" if landscape else "")
        whole = "whole numbers " if name == "vegetation" else ""
        value = layer[(*landscape, row, column)]
        raise UserError(f"{path}, layer {name}, {where}: {value} is not in {whole}{low}…{high} ({meaning})")
