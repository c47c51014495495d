"""threads: PyTorch spreads each operation over threads, which costs more than it gives where operations are small."""

from __future__ import annotations

from hotloop.doctor.case import Case, heaviest_line
from hotloop.doctor.finding import Finding, Trial

LEAST = 0.1  # of the time in PyTorch


def find(case: Case) -> list[Finding]:
    threads = case.facts.torch_threads
    share = case.share(
        lambda p: p.place.within is not None and p.place.within.what in ("forward", "backward", "optimizer")
    )
    frame = heaviest_line([p for p in case.placed if p.role == "update"])
    if threads is None or threads < 2 or share < LEAST or frame is None:
        return []
    windows = case.phases.judged
    cores = (windows[-1].cpu - windows[0].cpu) / max(1, windows[-1].ended - windows[0].ended)
    return [
        Finding(
            name="threads",
            title=f"{threads} threads inside each PyTorch operation",
            file=frame.function.file,
            line=frame.line,
            share=share,
            remedy="torch.set_num_threads(1), or OMP_NUM_THREADS=1 before the script starts",
            evidence=(f"the process keeps {cores:.1f} cores busy",),
            predicted_gain=None,  # depends on sizes and on what else runs; it is tried
            tier="slow",
            trial=Trial("one_thread", says="one thread inside each operation"),
        )
    ]
