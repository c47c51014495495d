"""A landscape with its breaks and fires for people: as text, and as a picture. Knows maps only."""

from __future__ import annotations

import numpy as np

from hotloop.envs._wildfire_land import CANOPY, ELEVATION, NONE, VEGETATION

GROUND = " .:^"  # none, agricultural, thickets, pine
COLOURS = np.array([(108, 122, 137), (222, 203, 128), (150, 170, 90), (46, 94, 58)], np.float64)
FIRE, BREAK = np.array([214, 58, 20], np.float64), np.array([32, 24, 20], np.float64)
SIDE = 400  # pixels of the longer side, about


def text(layers: np.ndarray, broken: np.ndarray, often: np.ndarray) -> str:
    """Left the landscape, right in how many tenths of the fires a cell burns; # is a fuel break."""
    lines = []
    for kinds, breaks, shares in zip(layers[VEGETATION].astype(int), broken, often, strict=True):
        left = "".join("#" if b else GROUND[k] for k, b in zip(kinds, breaks, strict=True))
        tenths = (
            "#" if b else " " if k == NONE else str(min(int(10 * s), 9))
            for k, b, s in zip(kinds, breaks, shares, strict=True)
        )
        lines.append(f"{left} | {''.join(tenths)}")
    return "\n".join([*lines, f"breaks {broken.sum()}, burned {often.mean():.1%}"])


def picture(layers: np.ndarray, broken: np.ndarray, often: np.ndarray) -> np.ndarray:
    """uint8 [H', W', 3]: vegetation, darker under canopy and on slopes to the south-east; red where it often burns;
    breaks are black."""
    kinds = layers[VEGETATION].astype(int)
    relief = np.gradient(layers[ELEVATION].astype(np.float64))
    light = 1.0 - 0.25 * layers[CANOPY] + np.clip((relief[0] + relief[1]) / 60.0, -0.25, 0.25)
    colours = COLOURS[kinds] * light[..., None]
    burnt = 0.85 * often[..., None]
    colours = np.where((kinds == NONE)[..., None], colours, colours * (1 - burnt) + FIRE * burnt)
    colours[broken] = BREAK
    scale = max(1, SIDE // max(kinds.shape))
    return np.clip(colours, 0, 255).astype(np.uint8).repeat(scale, axis=0).repeat(scale, axis=1)
