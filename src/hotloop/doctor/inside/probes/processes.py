"""Children of the script: a forked one writes a recording of its own; one that Python starts anew to carry on with the
script's functions (multiprocessing's spawn and forkserver) gets the probes too."""

from __future__ import annotations

import os
from typing import Any

from .. import sampler
from ..recorder import HERE, hello, now

FOLLOWED = 16  # children beyond this many are left alone
BOOT = (
    "import importlib.util as _u; _s = _u.spec_from_file_location('_hotloop_boot', {boot!r}); "
    "_m = _u.module_from_spec(_s); _s.loader.exec_module(_m); "
    "_m.load({folder!r}, 'probes.processes').joined({control!r}); "
)


def install(doctor: Any) -> None:
    rec = doctor.rec
    followed = [0]

    def before() -> None:
        followed[0] += 1
        rec.row("event", "fork", now() - rec.began)

    def in_child() -> None:
        parent = rec.pid
        rec.begin()
        rec.on = followed[0] <= FOLLOWED and not doctor.control.get("sides")
        doctor.boundary = None
        rec.row(*hello([]))  # in a trial too: the doctor ends every process that said so
        rec.row("forked", parent)
        rec.row("ready", sampler.SIGNAL is not None, 0)
        rec.write()

    if hasattr(os, "register_at_fork"):
        os.register_at_fork(before=before, after_in_child=in_child)
    if not doctor.control.get("sides"):
        doctor.watch.after("multiprocessing.util", lambda util: spawning(doctor, util))


def spawning(doctor: Any, util: Any) -> None:
    real = util.spawnv_passfds
    control = doctor.control["file"]

    def spawn(path: Any, args: Any, passfds: Any) -> Any:
        words = list(args)
        for i, word in enumerate(words[:-1]):
            code = words[i + 1]
            text = code.decode() if isinstance(code, bytes) else code
            if word in ("-c", b"-c") and ("spawn_main" in text or "forkserver" in text):
                text = BOOT.format(boot=os.path.join(HERE, "boot.py"), folder=HERE, control=control) + text
                words[i + 1] = text.encode() if isinstance(code, bytes) else text
                break
        return real(path, words, passfds)

    util.spawnv_passfds = spawn


def joined(control_file: str) -> None:
    """In a process that multiprocessing started anew."""
    import json

    from ..running import begin, watch_ends

    with open(control_file, encoding="utf-8") as file:
        doctor = begin(json.load(file), [])
    watch_ends(doctor.rec)
