"""What pixel worlds have in common: a frame as a part of an observation, as text, and in colour; a colour screen made
grey and small. Knows no game."""

from __future__ import annotations

from math import floor

import numpy as np

from hotloop.core.jit import kernel
from hotloop.core.types import Field

RED, GREEN, BLUE = 77, 150, 29  # of 256: the weights of ITU-R BT.601, which Atari's and OpenCV's grey have, too
_SHADES = " .:-=+*#%@"


def frame_field(size: int, stack: int) -> Field:
    """Single frames are written and stored; the network is given `stack` of them, as numbers from 0 to 1."""
    return Field("obs", (size, size), "uint8", stack=stack, scale=1 / 255)


def as_text(frame: np.ndarray, columns: int = 64) -> str:
    """A grey frame [H, W] as characters, half as many rows as columns since a character is twice as high as wide."""
    height, width = frame.shape
    across = np.arange(columns) * width // columns
    down = np.arange(columns // 2) * height // (columns // 2)
    shades = frame[down][:, across].astype(np.int64) * len(_SHADES) // 256
    return "\n".join("".join(_SHADES[s] for s in row) for row in shades)


class Shrink:
    """Colour screens [H, W, 3] → a grey frame [size, size]: the brighter of two screens in each colour, averaged over
    the area that becomes a pixel. Whole numbers throughout, so the same on every machine."""

    def __init__(self, height: int, width: int, size: int) -> None:
        self._down, self._across = _shares(height, size), _shares(width, size)
        self._shape = height, width * 3
        self._row, self._grey = np.zeros(width * 3, np.uint16), np.zeros(width, np.uint32)

    def __call__(self, first: np.ndarray, second: np.ndarray, out: np.ndarray) -> None:
        one, two = first.reshape(self._shape), second.reshape(self._shape)
        _shrink(one, two, *self._down, *self._across, self._row, self._grey, out)


_TAPS = 4  # pixels that one pixel of the result is made of, at the most: written out, since that vectorises


def _shares(long: int, short: int) -> tuple[np.ndarray, np.ndarray]:
    """Along one axis: the first pixel that has a share in each pixel of the result, [short] int32, and the shares of
    that one and those after it, of 256 together, [_TAPS, short] uint32."""
    if not long <= (_TAPS - 1) * short <= (_TAPS - 1) * long:
        raise ValueError(f"{long} pixels cannot become {short}: at least a third, and no more")
    first, shares = np.zeros(short, np.int32), np.zeros((_TAPS, short))
    for i in range(short):
        low, high = i * long / short, (i + 1) * long / short
        first[i] = min(floor(low + 1e-9), long - _TAPS)
        for k in range(_TAPS):
            shares[k, i] = max(0.0, min(high, first[i] + k + 1) - max(low, first[i] + k)) * short / long
    sums = np.rint(np.cumsum(shares, axis=0) * 256).astype(np.int64)  # so that the rounded shares add up
    return first, np.diff(sums, axis=0, prepend=0).astype(np.uint32)


@kernel
def _shrink(one, two, first_row, down, first_column, across, row, grey, out):
    """one, two [H, W*3], row [W*3], grey [W], out [size, size]. One row of the result after the other, so that what is
    between stays near; along it neighbours in memory are treated alike, which is what a vector unit does."""
    a4, b4, c4, d4 = across[0], across[1], across[2], across[3]
    for i in range(out.shape[0]):
        a, b, c, d = np.uint16(down[0, i]), np.uint16(down[1, i]), np.uint16(down[2, i]), np.uint16(down[3, i])
        y = first_row[i]
        for j in range(row.shape[0]):
            row[j] = (
                a * max(one[y, j], two[y, j])
                + b * max(one[y + 1, j], two[y + 1, j])
                + c * max(one[y + 2, j], two[y + 2, j])
                + d * max(one[y + 3, j], two[y + 3, j])
            )
        for x in range(grey.shape[0]):
            red, green, blue = row[3 * x], row[3 * x + 1], row[3 * x + 2]
            grey[x] = (np.uint32(RED) * red + np.uint32(GREEN) * green + np.uint32(BLUE) * blue) >> np.uint32(8)
        for j in range(out.shape[1]):
            x = first_column[j]
            total = a4[j] * grey[x] + b4[j] * grey[x + 1] + c4[j] * grey[x + 2] + d4[j] * grey[x + 3]
            out[i, j] = (total + np.uint32(1 << 15)) >> np.uint32(16)
