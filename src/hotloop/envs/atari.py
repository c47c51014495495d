"""atari/<game>: Atari 2600 games in ale-py's own lanes, which step outside the interpreter. Owns the options, the
clipping of rewards and what a game is judged by; the replay stacks the single frames. The state cannot be read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from hotloop.core.errors import MissingExtra, UserError, unknown
from hotloop.core.options import option
from hotloop.core.random import ENV, stream_key
from hotloop.core.types import Arrays, BatchedEnv, EnvSpec, Steps
from hotloop.envs._lanes import checked
from hotloop.envs._pixels import as_text, frame_field

ARGUMENT = "game"  # what follows the slash in atari/pong
MEASURES = ("score",)  # of the whole game, unclipped; not a number where only a life ended
TWO_PLAYERS = {"combat", "joust", "maze_craze", "warlords"}  # ale-py ends the process when asked to play them alone
_NEVER = 2**31 - 1  # games are cut here and not by ale-py, which then gives the frame before the last as the last one


@dataclass(frozen=True)
class Options:
    game: str = option("", "such as pong; named after the slash: atari/pong")
    frame: int = option(84, "pixels along one side of a frame", ge=24, le=210)
    skip: int = option(
        4, "emulated frames per env step; the last two are seen, the brighter of each pixel", ge=1, le=60
    )
    stack: int = option(4, "frames a network sees", ge=1, le=16)
    clip_rewards: bool = option(True, "learn from the sign of each reward; the score stays what it is")
    life_ends: bool = option(False, "a lost life ends the episode, while the game goes on")
    sticky: float = option(0.0, "probability, per emulated frame, that the last action is repeated instead", ge=0, le=1)
    noop_frames: int = option(
        30, "emulated frames of doing nothing that a game begins with, drawn from below this number", ge=0
    )
    fire: bool = option(True, "press the button at the beginning of games that wait for it")
    all_actions: bool = option(False, "all 18 actions instead of those that the game knows")
    max_frames: int = option(108_000, "emulated frames after which a game is cut", ge=1)
    threads: int = option(0, "that emulate; 0: one per core", ge=0, le=256)


def spec(options: Options) -> EnvSpec:
    actions = len(_actions(options))
    return EnvSpec(
        f"atari/{options.game}",
        (frame_field(options.frame, options.stack),),
        actions,
        measures=MEASURES,
        exact=False,
    )


def judged(options: Options) -> Options:
    """Whole games, also where learning sees lives."""
    return replace(options, life_ends=False)


def make(options: Options, lanes: int, first_lane: int = 0) -> BatchedEnv:
    return _Atari(checked(options, lanes), lanes, first_lane)


def _actions(options: Options) -> list[Any]:
    """What the game knows to do, in ale-py's order, which its lanes use, too."""
    ale_py = _installed()
    console = ale_py.ALEInterface()
    console.loadROM(_rom(options.game))
    return console.getLegalActionSet() if options.all_actions else console.getMinimalActionSet()


def _installed() -> Any:
    try:
        import ale_py
    except ImportError:
        raise MissingExtra("atari", "atari") from None
    ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)  # its greeting is no error
    return ale_py


def _rom(game: str) -> Any:
    _installed()
    from ale_py import roms

    known = sorted(set(roms.get_all_rom_ids()) - TWO_PLAYERS)
    if not game:
        raise UserError(f"atari needs a game, such as atari/pong; it has {len(known)}: {', '.join(known)}")
    if game not in known:
        raise unknown("Atari game", game, known)
    return roms.get_rom_path(game)


class _Atari:
    """Lanes of one game."""

    def __init__(self, options: Options, lanes: int, first_lane: int) -> None:
        self.spec = spec(options)
        self.lanes = lanes
        self._options, self._first_lane = options, first_lane
        from ale_py.vector_env import AtariVectorEnv
        from gymnasium.vector import AutoresetMode

        self._env: Any = AtariVectorEnv(
            options.game,
            lanes,
            num_threads=options.threads,
            max_num_frames_per_episode=_NEVER,
            repeat_action_probability=options.sticky,
            full_action_space=options.all_actions,
            autoreset_mode=AutoresetMode.SAME_STEP,
            img_height=options.frame,
            img_width=options.frame,
            stack_num=1,
            frameskip=options.skip,
            noop_max=options.noop_frames,
            life_loss_info=options.life_ends,
            reward_clipping=False,
            use_fire_reset=options.fire,
        )
        self._score = np.zeros(lanes, np.float64)
        self._frames = np.zeros(lanes, np.int64)  # emulated since the game began
        self._newest: Any = None  # [N, 1, frame, frame], for those who look

    def reset(self, seed: int, out: Steps) -> None:
        seeds = [lane_seed(seed, self._first_lane + i) for i in range(self.lanes)]
        self._newest, info = self._env.reset(seed=np.array(seeds))
        out.obs["obs"][...] = self._newest[:, 0]
        self._score.fill(0)
        self._frames[:] = info["episode_frame_number"]

    def step(self, actions: np.ndarray, out: Steps) -> None:
        if self._newest is None:
            raise UserError(f"{self.spec.name} was stepped before its first reset")
        if actions.min() < 0 or actions.max() >= self.spec.num_actions:
            raise UserError(f"{self.spec.name} has actions 0 … {self.spec.num_actions - 1}; got {actions}")
        self._newest, reward, out.terminated[:], _, info = self._env.step(actions)
        out.obs["obs"][...] = self._newest[:, 0]
        out.reward[:] = np.sign(reward) if self._options.clip_rewards else reward
        self._score += reward
        frames, before = info["episode_frame_number"], self._frames.copy()
        self._frames[:] = frames
        np.greater_equal(frames, self._options.max_frames, out=out.truncated)
        out.truncated &= ~out.terminated
        if out.terminated.any():
            # Where a life was lost the game goes on, and so does the count of its frames.
            self._end(out.terminated, frames != before + self._options.skip, info["final_obs"], out)
        if out.truncated.any():
            self._end(out.truncated, out.truncated, self._newest, out)
            self._newest, info = self._env.reset(options={"reset_mask": out.truncated.copy()})
            out.obs["obs"][out.truncated] = self._newest[out.truncated, 0]
            self._frames[:] = info["episode_frame_number"]

    def _end(self, ended: np.ndarray, over: np.ndarray, last: np.ndarray, out: Steps) -> None:
        """Episodes that ended; where the game is over, too, they have a score."""
        out.final_obs["obs"][ended] = last[ended, 0]
        out.measures[ended, 0] = np.where(over, self._score, np.nan)[ended]
        self._score[ended & over] = 0

    def state(self) -> Arrays:
        """Nothing: ale-py keeps the state of its lanes to itself."""
        return {}

    def set_state(self, state: Mapping[str, np.ndarray]) -> None:
        """Accepts the nothing that `state` gives; a reset has to follow."""
        if state:
            raise UserError(f"{self.spec.name} cannot take a state: ale-py keeps that of its lanes to itself; reset it")

    def picture(self, lane: int = 0) -> np.ndarray:
        """One lane as the network sees it, uint8 [H, W, 3]."""
        frame = np.zeros(self.spec.observation[0].shape, np.uint8) if self._newest is None else self._newest[lane, 0]
        return np.repeat(frame[:, :, None], 3, axis=2)

    def render(self, lane: int = 0) -> str:
        return f"{as_text(self.picture(lane)[:, :, 0], 84)}\nscore {self._score[lane]:g}"

    def close(self) -> None:
        self._env.close()


def lane_seed(seed: int, lane: int) -> int:
    """The 31-bit seed of a lane; games after its first go on from there."""
    with np.errstate(over="ignore"):  # without the compiler, NumPy's scalars warn of the wrap-around that is meant
        return int(np.uint64(stream_key(seed, ENV, lane))) >> 33
