"""Watches the script once, with every probe: for how long, and what became of it. Says in words how it ended; knows no
diagnosis."""

from __future__ import annotations

import signal
from dataclasses import dataclass
from pathlib import Path

from hotloop.doctor.patient import Ending, Patient, run
from hotloop.doctor.recording import Recording, read_all

ENOUGH, MOST = 0.4, 0.6  # of the time there is: usually, and where learning begins late
LEAST_OF_LEARNING_S = 3.0


@dataclass(frozen=True)
class Watched:
    ending: Ending
    recordings: tuple[Recording, ...]

    @property
    def main(self) -> Recording | None:
        """The process the script itself ran in."""
        return next((r for r in self.recordings if r.some("script")), self.recordings[0] if self.recordings else None)

    @property
    def raised(self) -> tuple[str, str, str, int] | None:
        """(kind, words, file, line) of the exception that ended it."""
        rows = self.main.some("raised") if self.main else []
        return tuple(rows[-1]) if rows else None  # type: ignore[return-value]

    @property
    def failed(self) -> bool:
        return not self.ending.stopped and (self.ending.code != 0 or self.raised is not None)


def watch(patient: Patient, folder: Path, seconds: float, restore: tuple[str, ...] = ()) -> Watched:
    """Ends after ENOUGH of the seconds where learning was seen by then, or else a little later; where there was no step
    either, after all of them. restore: names of
    arrays that are put back at every reset; such a run takes all its seconds."""
    learning = Learning(folder)

    def enough(at: float) -> bool:
        began = learning.began(at)
        if restore or at < ENOUGH * seconds or not learning.under_way:
            return False
        return at >= MOST * seconds or (began is not None and at - began >= LEAST_OF_LEARNING_S)

    ending = run(patient, folder, {"restore": list(restore)}, seconds, enough)
    return Watched(ending, tuple(read_all(folder)))


class Learning:
    """When the first optimizer made its first step: the row that describes it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.read: dict[Path, int] = {}
        self.at: float | None = None
        self.under_way = False  # a step was seen, or an update

    def began(self, at: float) -> float | None:
        if self.at is None:
            for file in self.folder.glob("rows-*.jsonl"):
                with file.open("rb") as rows:
                    rows.seek(self.read.get(file, 0))
                    new = rows.read()
                self.read[file] = self.read.get(file, 0) + len(new)
                self.under_way |= b'["env"' in new or b'["optimizer"' in new
                if b'["optimizer"' in new:
                    self.at = at
        return self.at


def how_it_ended(watched: Watched) -> str:
    """For the reader, in one line."""
    ending, raised = watched.ending, watched.raised
    if raised is not None:
        kind, words, file, line = raised
        where = f" at {Path(file).name}:{line}" if file else ""
        return f"it failed after {ending.seconds:.1f} s with {kind}{where}: {' '.join(words.split())[:200]}"
    if ending.stopped:
        return f"it was stopped by the doctor after {ending.seconds:.1f} s"
    if ending.code is not None and ending.code < 0:
        return f"it was killed by {_signal(-ending.code)} after {ending.seconds:.1f} s"
    if ending.code:
        return f"it left with exit code {ending.code} after {ending.seconds:.1f} s"
    return f"it ended by itself after {ending.seconds:.1f} s"


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
