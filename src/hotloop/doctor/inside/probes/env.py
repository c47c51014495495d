"""Environments, whoever wrote them: any Python class with a method that steps. What a step returns says whether it is
one, and how many lanes it has. Wrappers and vectors call the steps of others; only the outermost counts."""

from __future__ import annotations

import types
from typing import Any

from ..probing import Caller, forgiving, getframe, leave, like, timed
from ..recorder import Recorder, ident, now
from ..world import World

STEPS = {
    "step", "play_step", "frame_step", "game_step", "env_step", "next_step", "make_step", "do_step", "step_env",
    "take_step", "take_action", "do_action", "perform_action", "apply_action", "play_action", "execute_action",
}  # fmt: skip
RESETS = {"reset", "restart", "new_game", "reset_game", "new_episode", "start_episode", "reset_env"}
NEVER = {"Optimizer", "LRScheduler", "_LRScheduler", "Module", "GradScaler", "profile", "Enum"}
TRIES = 3  # calls that may return something else before a class is left alone
LANES_COUNTED = 65_536


def install(doctor: Any) -> None:
    probe = EnvProbe(doctor)
    doctor.after_class(probe.look_at)


class EnvProbe:
    def __init__(self, doctor: Any) -> None:
        self.rec: Recorder = doctor.rec
        self.doctor = doctor
        self.caller = Caller(doctor.rec)
        self.world = World(doctor.rec, doctor.control.get("restore", ()))
        self.shapes: dict[type, list[int]] = {}  # class -> [steps seen to be steps, seen to be something else]
        self.layouts: dict[type, tuple[int, int, list[int]]] = {}  # class -> of its results: how many, reward, ends
        self.instances: dict[int, int] = {}  # id of an environment -> its number
        self.lanes: dict[int, int] = {}  # number -> lanes
        self.before, self.after = forgiving(self.rec, self.world.before), forgiving(self.rec, self.world.after)

    def look_at(self, cls: type) -> None:
        own = cls.__dict__
        steps, resets = STEPS & own.keys(), RESETS & own.keys()
        if not steps and not (resets and any(hasattr(cls, name) for name in STEPS)):
            return
        if NEVER & {base.__name__ for base in cls.__mro__}:
            return
        for name in (*steps, *resets, *({"render"} & own.keys())):
            value = own[name]
            if isinstance(value, types.FunctionType):
                make = self.step if name in steps else self.reset if name in resets else self.render
                self.doctor.patches.put(cls, name, make(cls, name, value), stays=True)

    def render(self, cls: type, name: str, real: Any) -> Any:
        return timed(self.rec, "render", real, self.caller)

    def step(self, cls: type, name: str, real: Any) -> Any:
        rec, caller, doctor, account = self.rec, self.caller, self.doctor, forgiving(self.rec, self.account, 0)

        def probe(*args: Any, **kwargs: Any) -> Any:
            track = rec.tracks.get(ident()) or rec.track()
            if track.env_depth:
                return real(*args, **kwargs)
            track.env_depth = 1
            if doctor.boundary is not None:
                doctor.boundary()
            if not rec.on:
                try:
                    out = doctor.step_instead(real, args, kwargs)
                finally:
                    track.env_depth = 0
                account(args[0], out, cls, name)
                return out
            began = now()
            entry = [("env step", track.index, *caller(getframe(1))), 0]
            active = track.active
            active.append(entry)
            at, lanes = now(), 0
            rec.lost = lost = rec.lost + at - began
            try:
                out = doctor.step_instead(real, args, kwargs)
                done = now()
                lanes = account(args[0], out, cls, name)
                rec.lost += now() - done
                return out
            finally:
                track.env_depth = 0
                leave(rec, active, entry, at, lost, lanes)

        return like(real, probe)

    def reset(self, cls: type, name: str, real: Any) -> Any:
        rec, caller, doctor = self.rec, self.caller, self.doctor

        def probe(*args: Any, **kwargs: Any) -> Any:
            track = rec.tracks.get(ident()) or rec.track()
            if track.reset_depth or not args:
                return real(*args, **kwargs)
            track.reset_depth = 1
            try:
                self.before(args[0])
                if track.env_depth or not rec.on:
                    out = doctor.reset_instead(real, args, kwargs)
                else:
                    entry = [("env reset", track.index, *caller(getframe(1))), 0]
                    track.active.append(entry)
                    at, lost = now(), rec.lost
                    try:
                        out = doctor.reset_instead(real, args, kwargs)
                    finally:
                        leave(rec, track.active, entry, at, lost)
                self.after(args[0])
                return out
            finally:
                track.reset_depth = 0

        return like(real, probe)

    # --- what a step returned ----------------------------------------------------------------------------------------

    def account(self, env: Any, out: Any, cls: type, name: str) -> int:
        """Count one step; how many lanes it had."""
        rec = self.rec
        known, reading = self.layouts.get(cls), None
        if known is not None:
            reading = reread(out, known)
        elif (found := read(out)) is not None:
            reading, self.layouts[cls] = found[:2], (len(out), *found[2])
        seen = self.shapes.setdefault(cls, [0, 0])
        if reading is None:
            seen[1] += 1
            if not seen[0] and seen[1] >= TRIES:
                self.doctor.patches.take_off(cls, name)
            return 0
        seen[0] += 1
        lanes, ended = reading
        number = self.instances.get(id(env))
        if number is None or self.lanes.get(number) != lanes:
            if number is None:
                number = self.instances[id(env)] = len(self.instances)
            self.lanes[number] = lanes
            code = getattr(cls.__dict__.get(name), "__wrapped__", None)
            where = getattr(code, "__code__", None)
            file, line = (where.co_filename, where.co_firstlineno) if where else ("", 0)
            rec.row("env", number, type(env).__module__ + "." + type(env).__qualname__, lanes, file, line, name)
        rec.env_steps += lanes
        rec.env_calls += 1
        rec.episodes += ended
        key = ("env", 0, 0, 0, number)
        rec.counts[key] = rec.counts.get(key, 0) + lanes
        for then in self.doctor.at_step:
            then()
        return lanes


def reread(out: Any, layout: tuple[int, int, list[int]]) -> tuple[int, int] | None:
    """What read gives, of a result laid out like one that was read before."""
    length, reward, ends = layout
    if type(out) is not tuple or len(out) != length:
        return None
    lanes = size(out[reward]) if reward == 1 or length < 4 else 1
    return lanes, min(lanes, sum([count(out[i], lanes) for i in ends]))


def read(out: Any) -> tuple[int, int, tuple[int, list[int]]] | None:
    """(lanes, episodes that ended, (which is the reward, which the ends)) of what a step returned, or None where it is
    not what a step returns."""
    if type(out) is not tuple or not 2 <= len(out) <= 6:
        return None
    flags = [i for i, x in enumerate(out) if is_flag(x)]
    if len(out) == 5 and is_number(out[2]) and is_number(out[3]):
        ends = [2, 3]
    elif flags:
        ends = flags[:2]
    elif len(out) >= 4 and is_number(out[2]):
        ends = [2]  # 0.0 and 1.0
    else:
        return None
    rewards = [i for i in (1, *range(len(out))) if i not in ends and is_number(out[i]) and not is_flag(out[i])]
    if not rewards:
        return None
    lanes = size(out[rewards[0]]) if rewards[0] == 1 or len(out) < 4 else 1
    if all(size(out[i]) != lanes for i in ends):
        lanes = max(size(out[i]) for i in ends)
    return lanes, min(lanes, sum(count(out[i], lanes) for i in ends)), (rewards[0], ends)


def is_flag(x: Any) -> bool:
    return (
        isinstance(x, bool)
        or str(getattr(x, "dtype", "")).endswith("bool")
        or (isinstance(x, list) and bool(x) and isinstance(x[0], bool))
    )


def is_number(x: Any) -> bool:
    if isinstance(x, (int, float)):
        return True
    if isinstance(x, (list, tuple)):
        return bool(x) and isinstance(x[0], (int, float))
    return hasattr(x, "dtype") and hasattr(x, "shape") and len(x.shape) <= 2


def size(reward: Any) -> int:
    """Lanes."""
    shape = getattr(reward, "shape", None)
    if shape is not None:
        return int(shape[0]) if len(shape) else 1
    return len(reward) if isinstance(reward, (list, tuple)) else 1


def count(end: Any, lanes: int) -> int:
    if isinstance(end, (list, tuple)):
        return sum(map(bool, end))
    if getattr(end, "is_cuda", False) or lanes > LANES_COUNTED:
        return 0  # counting would wait for the device
    if not getattr(end, "shape", ()):
        return int(bool(end))
    if lanes <= 64 and len(end.shape) == 1:
        return sum(map(bool, end.tolist()))
    return int((end != 0).sum())
