"""Many seeds at once: agents that differ by their seed alone, trained in one process by the loop of train.py. Each has
a run folder as any run has; the folder they lie in has the summary of all."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from hotloop import aside, checkpoint, outcome
from hotloop.book import Book, Display
from hotloop.config import TrainConfig, resolve
from hotloop.core.errors import UserError
from hotloop.core.options import to_dict
from hotloop.meter import Meter
from hotloop.pipeline import build_pipeline
from hotloop.report import scores
from hotloop.run import CONFIG, SUMMARY, RunFolder, events, next_free, publish, strict_json
from hotloop.stop import Stop
from hotloop.together import Books, Failed, Once, Together
from hotloop.trace import Trace
from hotloop.train import begin_beside, loop

MARK = "seeds.json"  # in the folder of all: that it is one, and the names of theirs
MOST = aside.MOST_PARTS


class SeedsFolder:
    """The folder of all agents, theirs inside it, locked."""

    def __init__(self, path: Path, runs: Sequence[RunFolder]) -> None:
        self.path, self.runs = path, list(runs)

    @staticmethod
    def create(path: Path | None, config: TrainConfig, seeds: int) -> SeedsFolder:
        """The one named, or the next free one of runs/<workload>-s<first>to<last>-<n>."""
        refuse(config, seeds)
        last = config.seed + seeds - 1
        try:
            path = path or next_free(config.workload, f"{config.seed}to{last}")
            os.makedirs(path, exist_ok=True)
        except OSError as why:
            raise UserError(f"cannot make the run folder {path}: {why.strerror}; choose another") from None
        if found := [n for n in (MARK, CONFIG, SUMMARY) if (path / n).exists()]:
            raise UserError(f"{path} already holds a run ({found[0]}); resume it or choose another folder")
        with ExitStack() as undo:
            runs = []
            for seed in range(config.seed, last + 1):
                runs.append(RunFolder.create(path / f"s{seed}", config.workload, seed))
                undo.callback(runs[-1].close)
            undo.pop_all()
        return SeedsFolder(path, runs)

    @staticmethod
    def open(path: Path) -> SeedsFolder:
        """One that exists, locked."""
        try:
            names = [str(name) for name in json.loads((path / MARK).read_text("utf-8"))["folders"]]
        except (OSError, ValueError, KeyError, TypeError) as why:
            raise UserError(f"{path / MARK} cannot be read ({why}); resume the runs in it one by one") from None
        with ExitStack() as undo:
            runs = []
            for name in names:
                runs.append(RunFolder.open(path / name).lock())
                undo.callback(runs[-1].close)
            undo.pop_all()
        return SeedsFolder(path, runs)

    def configs(self, *layers: Mapping[str, Any]) -> list[TrainConfig]:
        """As they were trained, with layers over them."""
        return [resolve(run.read_config(), *layers) for run in self.runs]

    def mark(self, workload: str) -> None:
        text = {"workload": workload, "folders": [run.path.name for run in self.runs]}
        publish(self.path / MARK, strict_json(text, indent=2) + "\n")

    def close(self) -> None:
        """Let go of the locks; what could not be built leaves nothing behind."""
        for run in self.runs:
            run.close()
            run.drop_if_empty()
        if not any(self.path.iterdir()):
            self.path.rmdir()


def is_one(path: Path) -> bool:
    return (path / MARK).is_file()


def spread(config: TrainConfig, seeds: int) -> list[TrainConfig]:
    """One config for each seed from that of `config` on."""
    return [replace(config, seed=config.seed + i) for i in range(seeds)]


def refuse(config: TrainConfig, seeds: int) -> None:
    """What cannot be trained together, before anything is made."""
    if seeds > MOST:
        raise UserError(f"--seeds {seeds}: at most {MOST} in one process; start the others beside it")
    if config.seed + seeds > 2**63:
        raise UserError(f"--seeds {seeds} from --seed {config.seed} on go beyond 2^63 - 1; choose a lower --seed")
    if config.workers or hasattr(config.world().options, "processes"):
        raise UserError(
            f"--seeds {seeds} trains in one process, but {config.workload} with workers = {config.workers} steps its "
            "lanes in others; choose --workers 0 and another world, or start the seeds one by one"
        )


def train(
    configs: Sequence[TrainConfig], folder: SeedsFolder, display: Display, resume: bool = False
) -> dict[str, Any]:
    """Run all to the end of their budget, or to a signal -> the summary of all."""
    trace, display = Trace(), Once(display)
    trace.track("main")
    founds = _newest_in_common(folder) if resume else None
    with ExitStack() as stack:
        pipelines = []
        for config in configs:
            pipelines.append(build_pipeline(config, trace))
            stack.callback(pipelines[-1].close)
        books = []
        for i, (config, pipeline, run) in enumerate(zip(configs, pipelines, folder.runs, strict=True)):
            scalars = events(run, config.tensorboard, founds and founds[i].env_steps)
            books.append(Book(pipeline, Meter(pipeline.spec.measures), run, scalars, display, trace))
            if founds:
                books[-1].restore(founds[i])
            else:
                run.write_config(to_dict(config))
        folder.mark(configs[0].workload)
        together, all_books = Together(pipelines), Books(books, display)
        native = all(p.learner.program.native for p in pipelines)
        beside = aside.thread("update", trace, lambda: begin_beside(configs[0]), native)
        with Stop() as stop, beside:
            display.ready(together, together.collector.env_steps)
            all_books.start()
            try:
                loop(configs[0], together, beside, stop, all_books, trace)  # type: ignore[arg-type]
            except Failed as why:
                all_books.save()
                batch = outcome.dump_batch(folder.runs[why.agent], pipelines[why.agent])
                raise UserError(
                    f"all stopped: seed {configs[why.agent].seed}: {why}; batch in {batch}, checkpoints saved; the "
                    f"others go on one by one with: hotloop resume {folder.path}/sSEED"
                ) from None
            for book in books:
                book.meter.end()
            all_books.save()  # first: what follows may be interrupted
            trace.write_chrome(folder.path / "trace.json")
            alone = {"report": None, "together": [c.seed for c in configs]}
            summaries = [book.finish(stop.signal, **alone) for book in books]
            summary = summarized(folder.path, configs[0], summaries)
            publish(folder.path / SUMMARY, strict_json(summary, indent=2) + "\n")
        display.finish(summary)
        return summary


def _newest_in_common(folder: SeedsFolder) -> list[checkpoint.Checkpoint]:
    """The newest checkpoint of each that all of them have: a process may be killed between two saves."""
    founds = [checkpoint.load_latest(run.checkpoints) for run in folder.runs]
    least = min(found.env_steps for found in founds)
    for i, run in enumerate(folder.runs):
        if founds[i].env_steps != least:
            with suppress(UserError):
                founds[i] = checkpoint.load_latest(run.checkpoints, least)
        if founds[i].env_steps != least:
            raise UserError(
                f"{run.path} has no checkpoint at {least} env steps, where others stopped; resume the runs in "
                f"{folder.path} one by one"
            )
    return founds


def summarized(path: Path, config: TrainConfig, agents: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Counts and speeds of all together, returns over seeds, and each agent's own summary."""
    returns = np.array([a["return_mean"] for a in agents])
    speeds = [a["env_steps_per_s"] for a in agents]
    return {
        "workload": config.workload,
        "run": str(path),
        "seeds": [a["seed"] for a in agents],
        "env_steps": sum(a["env_steps"] for a in agents),
        "updates": sum(a["updates"] for a in agents),
        "batch": config.learner.batch_size,
        "samples_per_step": agents[0]["samples_per_step"],
        "env_steps_per_s": None if None in speeds else sum(speeds),
        "cold_start_s": round(sum(a["cold_start_s"] for a in agents), 3),
        "warm_start": all(a["warm_start"] for a in agents),
        "compiled": all(a["compiled"] for a in agents),
        "train_s": max(a["train_s"] for a in agents),
        "peak_rss_mb": max(a["peak_rss_mb"] for a in agents),
        "return_mean": float(returns.mean()),
        "return_interquartile_mean": float(scores.interquartile_mean(returns)),
        "return_ci": scores.interval(returns),  # type: ignore[arg-type]  of the interquartile mean, over seeds
        "return_min": float(returns.min()),
        "return_max": float(returns.max()),
        "refused_updates": sum(a["refused_updates"] for a in agents),
        "exact": all(a["exact"] for a in agents),
        "stopped_by_signal": agents[0]["stopped_by_signal"],
        "report": outcome.REPORT if config.report else None,
        "agents": list(agents),
    }
