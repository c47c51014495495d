"""Where a script waits or hands things over: sleeps, queues of threads and processes, pickling between processes, the
garbage collector; and replay samples taken with random.sample."""

from __future__ import annotations

import gc
import sys
import time
from typing import Any

from ..probing import Caller, leave, like, timed
from ..recorder import now


def install(doctor: Any) -> None:
    rec, patches, watch = doctor.rec, doctor.patches, doctor.watch
    caller = Caller(rec)
    patches.put(time, "sleep", timed(rec, "sleep", time.sleep, caller))
    watch.after("random", lambda m: patches.put(m, "sample", timed(rec, "random.sample", m.sample, caller, kinds)))
    collector(doctor)
    watch.after("queue", lambda module: queues(doctor, module, "thread queue", ("Queue", "SimpleQueue")))
    watch.after(
        "multiprocessing.queues",
        lambda m: queues(doctor, m, "process queue", ("Queue", "SimpleQueue", "JoinableQueue")),
    )
    watch.after("multiprocessing.reduction", lambda module: pickling(doctor, module))


def kinds(args: tuple[Any, ...]) -> tuple[str, ...]:
    """A deque is not a list: reaching into its middle takes time."""
    return (type(args[0]).__name__,) if args else ()


def collector(doctor: Any) -> None:
    rec = doctor.rec
    began = [0]
    entry: list[Any] = [None, 0]

    def collected(phase: str, info: dict[str, Any]) -> None:
        if not rec.on:
            return
        if phase == "start":
            entry[:] = [("gc", rec.track().index, 0, 0, info.get("generation", 0)), 0]
            rec.track().active.append(entry)
            began[0] = now()
        elif began[0]:
            leave(rec, rec.track().active, entry, began[0], rec.lost)
            began[0] = 0

    gc.callbacks.append(collected)


def queues(doctor: Any, module: Any, what: str, names: tuple[str, ...]) -> None:
    for name in names:
        cls = getattr(module, name, None)
        for method in ("put", "get"):
            if isinstance(cls, type) and method in cls.__dict__ and hasattr(cls.__dict__[method], "__code__"):
                doctor.patches.put(cls, method, handed(doctor.rec, what, cls.__dict__[method], method))


def handed(rec: Any, what: str, real: Any, method: str) -> Any:
    caller = Caller(rec, sys.modules[real.__module__].__file__ or "?")
    probe = timed(rec, what, real, caller, lambda args: (method,))

    def counted(*args: Any, **kwargs: Any) -> Any:
        try:
            return probe(*args, **kwargs)
        except Exception as why:  # Full and Empty: whether something was lost is for the reader to judge
            if rec.on:
                code, lasti = caller(sys._getframe(1))
                key = ("refused", 0, code, lasti, what, method, type(why).__name__)
                rec.counts[key] = rec.counts.get(key, 0) + 1
            raise

    return like(real, counted)


def pickling(doctor: Any, module: Any) -> None:
    rec = doctor.rec
    cls = module.ForkingPickler
    caller = Caller(rec)
    dumps, loads = cls.dumps, cls.loads

    def dumped(cls: Any, *args: Any, **kwargs: Any) -> Any:
        out = timed_dumps(*args, **kwargs)
        rec.counts["pickled bytes", 0, 0, 0] = rec.counts.get(("pickled bytes", 0, 0, 0), 0) + len(out)
        return out

    def loaded(*args: Any, **kwargs: Any) -> Any:
        if args and hasattr(args[0], "__len__"):
            rec.counts["unpickled bytes", 0, 0, 0] = rec.counts.get(("unpickled bytes", 0, 0, 0), 0) + len(args[0])
        return timed_loads(*args, **kwargs)

    timed_dumps = timed(rec, "pickle", dumps, caller)
    timed_loads = timed(rec, "unpickle", loads, caller)
    doctor.patches.put(cls, "dumps", classmethod(dumped))
    doctor.patches.put(cls, "loads", staticmethod(loaded))
