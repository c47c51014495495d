from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hotloop.envs._pixels import BLUE, GREEN, RED, Shrink, as_text, frame_field
from tests.references.mario import averaged


@settings(max_examples=25, deadline=None)
@given(st.integers(80, 240), st.integers(80, 240), st.data(), st.integers(0, 2**32 - 1))
def test_small_pixels_are_the_mean_of_their_area(height, width, data, seed):
    size = data.draw(st.integers(-(-max(height, width) // 3), min(height, width)))
    rng = np.random.default_rng(seed)
    first, second = (rng.integers(0, 256, (height, width, 3), np.uint8) for _ in range(2))
    out = np.zeros((size, size), np.uint8)
    Shrink(height, width, size)(first, second, out)
    assert np.abs(out - averaged(np.maximum(first, second), size)).max() < 2


@pytest.mark.parametrize("size", [80, 84, 128, 224])
def test_even_screens_stay_as_they_are(size):
    """Shares and weights add up: no size darkens."""
    assert RED + GREEN + BLUE == 256
    out, shrink = np.zeros((size, size), np.uint8), Shrink(224, 240, size)
    for value in (0, 1, 127, 254, 255):
        screen = np.full((224, 240, 3), value, np.uint8)
        shrink(screen, screen, out)
        assert (out == value).all()


def test_the_brighter_of_two_screens_in_each_colour():
    """What flickers is seen, whichever of the two it is in."""
    black = np.zeros((224, 240, 3), np.uint8)
    red, green, both = black.copy(), black.copy(), black.copy()
    red[:, :, 0], green[:, :, 1] = 200, 100
    both[:, :, 0], both[:, :, 1] = 200, 100
    shrink = Shrink(224, 240, 84)
    seen = [np.zeros((84, 84), np.uint8) for _ in range(3)]
    shrink(red, green, seen[0])
    shrink(green, red, seen[1])
    shrink(both, black, seen[2])
    assert np.array_equal(seen[0], seen[1]) and np.array_equal(seen[0], seen[2])
    assert seen[0][0, 0] == round((77 * 200 + 150 * 100) / 256)
    assert not red[:, :, 1].any() and not green[:, :, 0].any()  # the screens themselves are left alone


def test_where_a_pixel_goes():
    """One white pixel of the long screen is shared by the pixels of the small one that lie under it."""
    screen = np.zeros((6, 6, 3), np.uint8)
    screen[1, 4] = 255
    out = np.zeros((4, 4), np.uint8)
    Shrink(6, 6, 4)(screen, screen, out)
    # Rows 0–1.5 and 1.5–3 halve row 1; columns 3–4.5 and 4.5–6 halve column 4: a quarter each, of an area of 2.25.
    assert np.argwhere(out).tolist() == [[0, 2], [0, 3], [1, 2], [1, 3]]
    assert np.abs(out[out > 0] - 255 * 0.25 / 2.25).max() <= 1


def test_sizes_that_cannot_be_are_refused():
    for size in (70, 241):
        with pytest.raises(ValueError, match="cannot become"):
            Shrink(224, 240, size)


def test_frames_are_stored_single_and_scaled():
    field = frame_field(84, 4)
    assert (field.name, field.shape, field.seen, field.dtype) == ("obs", (84, 84), (4, 84, 84), "uint8")
    assert 255 * field.scale == pytest.approx(1.0)
    assert frame_field(84, 1).seen == (84, 84)


def test_text_has_half_as_many_rows_as_columns_and_is_darker_where_the_frame_is():
    frame = np.zeros((100, 100), np.uint8)
    frame[:50, 50:] = 255
    lines = as_text(frame, 20).splitlines()
    assert len(lines) == 10 and all(len(line) == 20 for line in lines)
    assert lines[0] == " " * 10 + "@" * 10 and lines[9] == " " * 20
    assert len(set(as_text(np.arange(256, dtype=np.uint8).reshape(16, 16), 16))) > 9
