"""Landscapes: drawn ones, those of a file, what is refused and how, and what a person sees."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from hotloop.core.errors import UserError
from hotloop.core.schema import new_steps
from hotloop.envs._wildfire_land import LAYERS, SHARES
from hotloop.envs.wildfire import Options, make, spec


def layers_of(env) -> np.ndarray:
    """[N, 5, H, W]"""
    _, height, width = env.spec.observation[0].shape
    return env.state()["layers"].reshape(env.lanes, len(LAYERS), height, width)


def drawn(seed: int, lanes: int = 200, **options) -> np.ndarray:
    env = make(Options(fires=1, evaluation_fires=1, **options), lanes)
    env.reset(seed, new_steps(env.spec, lanes))
    return layers_of(env)


def good(height: int = 12, width: int = 15, number: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    shape = (number, height, width) if number else (height, width)
    return {
        "vegetation": rng.integers(0, 4, shape),
        "canopy": rng.random(shape),
        "elevation": rng.uniform(0, 900, shape),
        "wind_speed": rng.uniform(0, 20, shape),
        "wind_from": rng.uniform(0, 360, shape),
    }


def saved(folder: Path, layers: dict[str, np.ndarray]) -> str:
    path = folder / "land.npz"
    np.savez(path, **layers)  # pyright: ignore[reportArgumentType]
    return str(path)


@pytest.mark.parametrize("size", [10, 20, 33])
def test_drawn_landscapes_are_as_announced(size):
    land = drawn(1, size=size, wind=15.0)
    kinds = land[:, 0].reshape(200, -1)
    shares = np.array([(kinds == k).mean(axis=1) for k in range(4)])
    assert np.abs(shares - SHARES[:, None]).max() < 0.02
    canopy, elevation, speed, blows_from = land[:, 1], land[:, 2], land[:, 3], land[:, 4]
    assert (canopy[land[:, 0] == 0] == 0).all() and (canopy >= 0).all() and (canopy <= 1).all()
    assert (elevation >= 0).all() and (elevation <= 150).all() and elevation.std(axis=(1, 2)).min() > 5
    assert (
        (speed < 15).all() and speed.mean() == pytest.approx(7.5, abs=1.5) and (np.ptp(speed, axis=(1, 2)) == 0).all()
    )
    assert (blows_from < 360).all() and blows_from.mean() == pytest.approx(180, abs=30)


def test_drawn_landscapes_are_smooth_and_differ():
    land = drawn(2)
    for layer in (0, 2):
        beside = np.abs(np.diff(land[:, layer], axis=2)).mean()
        anywhere = np.abs(land[:, layer] - land[:, layer, :, ::-1]).mean()
        assert beside < 0.6 * anywhere
    assert len({one.tobytes() for one in land}) == 200
    assert land.tobytes() == drawn(2).tobytes() != drawn(3).tobytes()


@pytest.mark.parametrize("number", [0, 1, 5])
def test_landscapes_of_a_file_are_taken_as_they_stand(tmp_path, number):
    layers = good(number=number)
    options = Options(landscape=saved(tmp_path, layers), budget=0.01, fires=1, evaluation_fires=1)
    assert spec(options).observation[0].shape == (10, 12, 15) and spec(options).num_actions == 180
    env = make(options, 40)
    out = new_steps(env.spec, 40)
    env.reset(0, out)
    stacked = np.stack([layers[name].reshape(-1, 12, 15) for name in LAYERS], axis=1).astype(np.float32)
    wanted = {one.tobytes() for one in stacked}
    assert {one.tobytes() for one in layers_of(env)} == wanted
    for _ in range(2):  # one episode: others are drawn from the same file
        env.step(out.mask.argmax(axis=1).astype(np.int32), out)
    assert out.terminated.all() and {one.tobytes() for one in layers_of(env)} <= wanted


def test_a_file_that_changes_is_read_again(tmp_path):
    layers = good()
    path = saved(tmp_path, layers)
    assert spec(Options(landscape=path)).num_actions == 180
    saved(tmp_path, good(10, 10))
    assert spec(Options(landscape=path)).num_actions == 100


def spoilt(layer: str, value: float, number: int = 0) -> dict[str, np.ndarray]:
    layers = {name: a.astype(np.float64) for name, a in good(number=number).items()}
    layers[layer][..., 3, 7] = value
    return layers


NAN = float("nan")
WRONG = [
    (spoilt("canopy", NAN), "layer canopy, row 3, column 7: nan is not in 0…1"),
    (spoilt("elevation", NAN, number=2), "layer elevation, row 3, column 7 of landscape 0: nan is not in -500…9000"),
    (spoilt("wind_speed", -1.0), "layer wind_speed, row 3, column 7: -1.0 is not in 0…40"),
    (spoilt("wind_from", 361.0), "layer wind_from, row 3, column 7: 361.0 is not in 0…360"),
    (spoilt("vegetation", 4.0), "layer vegetation, row 3, column 7: 4.0 is not in whole numbers 0…3"),
    (spoilt("vegetation", 1.5), "layer vegetation, row 3, column 7: 1.5 is not in whole numbers 0…3"),
    ({**good(), "vegetation": np.zeros((12, 15))}, "layer vegetation: every cell is 0, so that nothing can burn"),
    (
        {**good(number=2), "vegetation": np.stack([np.ones((12, 15)), np.zeros((12, 15))])},
        "layer vegetation of landscape 1: every cell is 0",
    ),
    ({k: a for k, a in good().items() if k != "canopy"}, "has no layer canopy; it needs vegetation, canopy"),
    ({**good(), "elevation": np.zeros((12, 14))}, "layer elevation has shape (12, 14), layer vegetation has (12, 15)"),
    ({**good(), "slope": np.zeros((12, 15))}, "layer in"),
    ({**good(), "canopy": np.full((12, 15), "x")}, "layer canopy is of <U1; expected numbers"),
    (good(9, 12), "layer vegetation has shape (9, 12); expected (height, width) or (landscapes, height, width)"),
    (good(61, 12), "height and width from 10 to 60"),
    ({name: np.zeros((0, 12, 12)) for name in LAYERS}, "layer vegetation has shape (0, 12, 12)"),
    ({name: np.zeros(()) for name in LAYERS}, "layer vegetation has shape ()"),
]


@pytest.mark.parametrize(("layers", "says"), WRONG, ids=range(len(WRONG)))
def test_a_wrong_file_is_refused_by_file_layer_and_cell(tmp_path, layers, says):
    path = saved(tmp_path, layers)
    with pytest.raises(UserError) as refused:
        make(Options(landscape=path), 1)
    message = str(refused.value)
    assert says in message and path in message and "\n" not in message


def test_what_is_no_file_of_layers_is_refused(tmp_path):
    missing, text, single, objects = (str(tmp_path / name) for name in ("no.npz", "a.npz", "b.npy", "c.npz"))
    Path(text).write_text("fuel\n")
    np.save(single, np.zeros((10, 10)))
    np.savez(objects, vegetation=np.array([{}], dtype=object))
    for path, says in (
        (missing, "No such file"), (text, "is no .npz file"), (single, "is no .npz file"),
        (objects, "is no .npz file"), (str(tmp_path), "is no .npz file"),
    ):  # fmt: skip
        with pytest.raises(UserError, match=re.escape(says)) as refused:
            spec(Options(landscape=path))
        assert path in str(refused.value) and "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"size": 0}, "size = 0: must be at least 10"),
        ({"size": 61}, "size = 61: must be at most 60"),
        ({"budget": 0.0}, "budget = 0.0: must be more than 0"),
        ({"budget": 1.5}, "budget = 1.5: must be at most 1"),
        ({"budget": 0.9}, "env.budget = 0.9 is 360 of 400 cells, but a drawn landscape has only 340 that can burn"),
        ({"fires": 0}, "fires = 0: must be at least 1"),
        ({"cells_per_step": 0}, "cells_per_step = 0: must be at least 1"),
        ({"wind": float("nan")}, "wind = nan"),
    ],
)
def test_options_out_of_range_are_refused(options, says):
    with pytest.raises(UserError, match=re.escape(says)) as refused:
        make(Options(**options), 1)
    assert "\n" not in str(refused.value)


def test_a_budget_above_the_cells_of_some_landscape_names_it(tmp_path):
    layers = good(10, 10, number=3)
    layers["vegetation"][...] = 1
    layers["vegetation"][1, :9] = 0
    path = saved(tmp_path, layers)
    with pytest.raises(UserError) as refused:
        make(Options(landscape=path, budget=0.11), 1)
    message = str(refused.value)
    assert f"budget = 0.11 is 11 of 100 cells, but landscape 1 of {path} has only 10 that can burn" in message
    assert "at most 0.1" in message
    make(Options(landscape=path, budget=0.1), 1)


def test_the_greatest_budget_takes_every_cell_that_can_burn():
    env = make(Options(size=10, budget=0.85, fires=2, evaluation_fires=3), 2)
    out = new_steps(env.spec, 2)
    env.reset(0, out)
    for _ in range(85):
        env.step(out.mask.argmax(axis=1).astype(np.int32), out)
    assert out.terminated.all() and not out.final_mask.any() and out.mask.any(axis=1).all()
    assert (out.measures[:, [0, 2]] == 0).all() and (out.measures[:, [1, 3]] > 0).all()


def test_what_a_person_sees(tmp_path):
    layers = good(10, 14)
    layers["vegetation"][...] = 3
    layers["vegetation"][0, :4] = [0, 1, 2, 3]
    options = Options(landscape=saved(tmp_path, layers), budget=0.05, fires=4)
    env = make(options, 2)
    out = new_steps(env.spec, 2)
    env.reset(0, out)
    env.step(np.array([4, 139], np.int32), out)
    lines = env.render(0).splitlines()
    left, right = lines[0].split(" | ")
    assert left == " .:^#" + "^" * 9 and right[0] == " " and right[4] == "#" and right[1].isdigit()
    assert len(lines) == 11 and lines[-1].startswith("breaks 1, burned ")
    assert env.render(1).splitlines()[9].split(" | ")[0].endswith("#")
    picture = env.picture(0)  # pyright: ignore[reportAttributeAccessIssue]
    assert picture.dtype == np.uint8 and picture.shape[2] == 3 and picture.shape[0] * 14 == picture.shape[1] * 10
    side = picture.shape[0] // 10
    assert (picture[:side, 4 * side : 5 * side] == (32, 24, 20)).all()
    assert not (picture[side:] == (32, 24, 20)).all(axis=2).any()
