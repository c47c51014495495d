"""Runs the script with the probes around it: as `python script.py` would, with its own arguments, its folder first
on sys.path, its traceback without ours. Says how it ended, also when it does so by os._exit or by becoming
another program."""

from __future__ import annotations

import atexit
import builtins
import importlib
import importlib.machinery
import json
import os
import sys
import types
from typing import Any, Callable

from . import hooks, sampler
from .epsilon import Epsilon
from .probing import Patches
from .recorder import HERE, Recorder, hello, now

PROBES = ("env", "pytorch", "printing", "waiting", "processes")


class Doctor:
    """What the probes share. `boundary`, `step_instead` and their like are how a remedy gets between the script and
    what it calls; unless one is at work they do nothing."""

    def __init__(self, control: dict[str, Any]) -> None:
        self.control = control
        self.rec = Recorder(control["folder"])
        self.watch = hooks.Watch()
        self.after_class = hooks.after_class
        self.patches = Patches()
        self.sampling: Any = None
        self.forwards: Any = None
        self.targets: Any = None
        self.optimizers: list[Any] = []
        self.at_step: list[Callable[[], None]] = [self.stepped]
        self.boundary: Callable[[], None] | None = None
        self.compiled: list[bool] = []  # not empty once the script asked for a compiler
        self.compiling: Callable[[], bool] = lambda: False
        self.step_instead: Callable[..., Any] = lambda real, args, kwargs: real(*args, **kwargs)
        self.reset_instead: Callable[..., Any] = lambda real, args, kwargs: real(*args, **kwargs)
        self.forward_instead: Callable[..., Any] = lambda real, module, args, kwargs: real(module, *args, **kwargs)
        self.optimize_instead: Callable[..., Any] = lambda real, opt, args, kwargs: real(opt, *args, **kwargs)

    def stepped(self) -> None:
        if self.forwards is not None:
            self.forwards.acted()


def main(control_file: str, argv: list[str]) -> None:
    with open(control_file, encoding="utf-8") as file:
        control = json.load(file)
    doctor = begin(control, argv)
    run_script(doctor, argv)


def begin(control: dict[str, Any], argv: list[str]) -> Doctor:
    doctor = Doctor(control)
    rec = doctor.rec
    rec.row(*hello(argv))
    sys.meta_path.insert(0, doctor.watch)
    for name in PROBES:
        importlib.import_module(".probes." + name, __package__).install(doctor)
    if control.get("sides"):
        importlib.import_module(".switching", __package__).install(doctor)
    epsilon = Epsilon(rec)
    doctor.sampling = sampler.start(rec, epsilon.look, doctor.patches.tiny)
    rec.row("ready", doctor.sampling.by_signal, now() - rec.began)
    if not rec.on:
        doctor.sampling.pause()
    rec.write()
    return doctor


def run_script(doctor: Doctor, argv: list[str]) -> None:
    rec = doctor.rec
    watch_ends(rec)
    path = os.path.abspath(argv[0])
    sys.argv[:] = argv
    if not getattr(sys.flags, "safe_path", False):  # then Python itself leaves the script's folder out
        sys.path[0] = os.path.dirname(os.path.realpath(path))
    module = types.ModuleType("__main__")
    loader = importlib.machinery.SourceFileLoader("__main__", path)
    module.__dict__.update(__file__=path, __builtins__=builtins, __loader__=loader, __cached__=None)
    sys.modules["__main__"] = module
    try:
        with open(path, "rb") as file:
            source = file.read()
        transform = doctor.watch.transforms.get(path)
        code = transform(source, path) if transform else compile(source, path, "exec", dont_inherit=True)
        rec.row("script", now() - rec.began)
        exec(code, module.__dict__)
    except SystemExit as left:
        rec.row("exit", left.code if isinstance(left.code, (int, type(None))) else str(left.code))
        raise
    except BaseException as why:
        raised(rec, why)
        sys.exit(130 if isinstance(why, KeyboardInterrupt) else 1)


def raised(rec: Recorder, why: BaseException) -> None:
    """The script's own traceback, without the frames that are ours."""
    trace = why.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename.startswith(HERE):
        trace = trace.tb_next
    last = trace
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    file, line = (last.tb_frame.f_code.co_filename, last.tb_lineno) if last else ("", 0)
    if isinstance(why, SyntaxError):
        file, line = why.filename or file, why.lineno or line
    rec.row("raised", type(why).__name__, str(why)[:500], file, line)
    sys.excepthook(type(why), why.with_traceback(trace), trace)


def watch_ends(rec: Recorder) -> None:
    """However the process ends by itself, what was recorded is written first."""
    atexit.register(lambda: rec.end("exit"))
    leave = os._exit

    def at_once(status: int) -> None:
        rec.row("exit", status)
        rec.end("os._exit")
        leave(status)

    os._exit = at_once  # type: ignore[assignment]
    for name in ("execv", "execve"):
        real = getattr(os, name)

        def become(*args: Any, _real: Any = real, **kwargs: Any) -> Any:
            rec.row("event", "exec " + str(args[0]) if args else "exec", now() - rec.began)
            rec.flush(now())
            return _real(*args, **kwargs)

        setattr(os, name, become)
