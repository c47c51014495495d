"""What each place was doing it for: acting, stepping, replay, updating, saying so. Timed calls say it themselves;
anything else by the statement of the loop it lies under, and by the words of the code."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from hotloop.doctor.loop import Loop
from hotloop.doctor.recording import Frame, Probe
from hotloop.doctor.source import is_own, source
from hotloop.doctor.weighing import Weighed

OF_PROBE = {
    "env step": ("env", "step"), "env reset": ("env", "reset"), "render": ("env", "render"),
    "backward": ("update", "backward"), "optimizer": ("update", "optimizer"), "zero grad": ("update", "optimizer"),
    "clip": ("update", "clip"), "target copy": ("update", "target"),
    "random.sample": ("replay", "sample"), "print": ("logging", "print"), "log": ("logging", "log"),
    "format": ("logging", "format"), "dashboard": ("logging", "dashboard"), "bar": ("logging", "bar"),
    "save": ("checkpoint", ""), "sleep": ("sleep", ""), "gc": ("gc", ""),
    "thread queue": ("transport", "queue"), "process queue": ("transport", "queue"),
    "pickle": ("transport", "pickle"), "unpickle": ("transport", "pickle"),
}  # fmt: skip
ORDER = ("update", "act", "env", "replay", "transport", "logging", "checkpoint", "sleep", "gc", "compile", "other")
REPLAY = re.compile(
    r"replay|buffer|memory|\bsample|push|remember|store_|add_transition|append_sample|get_batch|experience", re.I
)
COLLATING = re.compile(
    r"random\.sample|np\.(stack|vstack|concatenate|array|asarray)\(|torch\.(stack|tensor|cat|from_numpy|as_tensor|"
    r"FloatTensor|LongTensor|Tensor)\(|zip\(\*|\.sample\("
)
SAYING = re.compile(r"\bprint\(|log(ger|ging)?\.|writer\.|tqdm|wandb|plt\.|plot", re.I)
ACTING = re.compile(r"\b(act|action|select|choose|policy|predict|epsilon|greedy)", re.I)
SAYERS = {
    "matplotlib": "plot",
    "tensorboard": "dashboard",
    "tensorboardX": "dashboard",
    "wandb": "dashboard",
    "tqdm": "bar",
}


@dataclass(frozen=True)
class Placed:
    """A place with what it is for, and the statement of the loop it lies under."""

    place: Weighed
    role: str
    part: str
    statement: ast.stmt | None

    @property
    def ns(self) -> float:
        return self.place.ns


class Roles:
    def __init__(self, places: Sequence[Weighed], loop: Loop | None, acting: frozenset[Probe]) -> None:
        """acting: the forwards whose results are acted upon."""
        self.loop, self.acting = loop, acting
        statements = [loop.statement(p.frames) if loop else None for p in places]
        self.regions = self._regions(places, statements)
        self.placed = [Placed(p, *self._role(p, s), s) for p, s in zip(places, statements, strict=True)]

    def _regions(self, places: Sequence[Weighed], statements: Sequence[ast.stmt | None]) -> dict[ast.stmt, str]:
        """Statements of the loop that are what they contain."""
        seen: dict[ast.stmt, dict[str, float]] = defaultdict(lambda: defaultdict(float))
        for place, statement in zip(places, statements, strict=True):
            role = self._probed(place)
            if statement is not None and role is not None:
                seen[statement][role[0]] += place.ns
        out = {}
        for statement, roles in seen.items():
            out[statement] = next(
                (r for r in ("env", "update", "act") if r in roles), max(roles, key=lambda r: roles[r])
            )
        return out

    def _probed(self, place: Weighed) -> tuple[str, str] | None:
        if place.under == "env step" and place.within is not None and place.within.what not in ("print", "gc", "sleep"):
            return "env", "step"
        if place.within is None:
            return None
        if place.within.what == "forward":
            return ("act", "forward") if place.within in self.acting else ("update", "forward")
        return OF_PROBE.get(place.within.what)

    def _role(self, place: Weighed, statement: ast.stmt | None) -> tuple[str, str]:
        probed = self._probed(place)
        if probed is not None:
            return probed
        for frame in place.frames:
            package = _package(frame.function.file)
            if package in SAYERS:
                return "logging", SAYERS[package]
            if package == "torch" and re.search(r"/torch/(_dynamo|_inductor|jit)/", frame.function.file):
                return "compile", ""
        region = self._region(statement)
        inner = self._below(place.frames)
        if region in ("update", None, "other", "replay") and self._is_replay(inner, statement):
            return "replay", "sample" if region == "update" else "store"
        if region is not None and region != "other":
            return region, "rest"
        return self._by_words(statement)

    def _region(self, statement: ast.stmt | None) -> str | None:
        """Its own, or that of the block it stands in where updating goes on there and stepping does not."""
        if statement is None or self.loop is None:
            return None
        if statement in self.regions:
            return self.regions[statement]
        for outer in self.loop.source.above(statement):
            if isinstance(outer, ast.For | ast.While | ast.FunctionDef | ast.Module):
                roles = {r for s, r in self.regions.items() if outer in self.loop.source.above(s)}
                return "update" if "update" in roles and "env" not in roles and isinstance(outer, ast.For) else None
            roles = {r for s, r in self.regions.items() if outer in self.loop.source.above(s)}
            if "update" in roles and "env" not in roles:
                return "update"
            if roles and roles <= {"act"}:
                return "act"
        return None

    def _below(self, frames: Sequence[Frame]) -> list[Frame]:
        """The user's frames under the loop, innermost first."""
        out = []
        for frame in frames:
            if self.loop is not None and frame.function == self.loop.function:
                break
            if is_own(frame.function.file) or "stable_baselines3" in frame.function.file:
                out.append(frame)
        return out

    def _is_replay(self, inner: Sequence[Frame], statement: ast.stmt | None) -> bool:
        for frame in inner:
            if REPLAY.search(frame.function.name) or COLLATING.search(source(frame.function.file).line(frame.line)):
                return True
        if not inner and statement is not None and self.loop is not None:
            return bool(COLLATING.search(self.loop.source.text(statement)))
        return False

    def _by_words(self, statement: ast.stmt | None) -> tuple[str, str]:
        text = self.loop.source.text(statement) if self.loop and not _holds_others(statement) else ""
        for pattern, role in ((SAYING, ("logging", "rest")), (REPLAY, ("replay", "store")), (ACTING, ("act", "rest"))):
            if pattern.search(text):
                return role
        return "other", ""

    def shares(self, wall: float) -> dict[str, dict[str, float]]:
        """role -> part -> share of the wall time, in the order in which they are told."""
        out: dict[str, dict[str, float]] = {role: defaultdict(float) for role in ORDER}
        for placed in self.placed:
            out[placed.role][placed.part] += placed.ns / wall
        return {role: dict(parts) for role, parts in out.items() if parts}


def _holds_others(statement: ast.stmt | None) -> bool:
    return isinstance(statement, ast.For | ast.While | ast.If | ast.With | ast.Try)


def _package(file: str) -> str:
    for folder in ("site-packages/", "dist-packages/"):
        if folder in file:
            return file.rpartition(folder)[2].partition("/")[0]
    return ""
