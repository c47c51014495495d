"""A run on the terminal: a live panel where there is one, plain lines where there is not."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any, TextIO

PLAIN_EVERY_S = 2.0


class Quiet:
    """Only what a user must not miss, on stderr."""

    def note(self, text: str) -> None:
        print(f"hotloop: {text}", file=sys.stderr)

    def ready(self, pipeline: Any, env_steps: int) -> None: ...

    def row(self, row: Mapping[str, Any]) -> None: ...

    def finish(self, summary: Mapping[str, Any]) -> None: ...


class Lines:
    """One line every few seconds."""

    def __init__(self, out: TextIO | None = None, every_s: float = PLAIN_EVERY_S) -> None:
        self.out, self.every_s = out or sys.stdout, every_s
        self._last = 0.0
        self._total = 0
        self._measures: Sequence[str] = ()

    def _say(self, text: str) -> None:
        print(text, file=self.out, flush=True)

    def note(self, text: str) -> None:
        self._say(f"note: {text}")

    def ready(self, pipeline: Any, env_steps: int) -> None:
        self._total, self._measures = pipeline.config.total_env_steps, pipeline.spec.measures
        for line in opening(pipeline, env_steps):
            self._say(line)

    def row(self, row: Mapping[str, Any]) -> None:
        if time.perf_counter() - self._last >= self.every_s or "eval_return_mean" in row:
            self._last = time.perf_counter()
            self._say("  ".join(f"{name} {text}" for name, text in cells(row, self._total, self._measures)))

    def finish(self, summary: Mapping[str, Any]) -> None:
        for line in closing(summary):
            self._say(line)


class Live:
    """A panel that redraws itself: progress, speed, where the time goes, how learning goes."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.live import Live as RichLive
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        self.console = Console()
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=None),
            TextColumn("{task.percentage:>3.0f}%"),
            TimeRemainingColumn(),
            console=self.console,
        )
        self._row: Mapping[str, Any] = {}
        self._measures: Sequence[str] = ()
        self._total, self._task, self._trace, self._running = 0, None, None, False
        # Last: it draws once as it is made.
        self._live = RichLive(console=self.console, refresh_per_second=8, get_renderable=self._draw)

    def note(self, text: str) -> None:
        self.console.print(f"note: {text}", style="yellow", markup=False, highlight=False)

    def ready(self, pipeline: Any, env_steps: int) -> None:
        for line in opening(pipeline, env_steps):
            self.console.print(line, markup=False, highlight=False)
        self._total, self._trace = pipeline.config.total_env_steps, pipeline.trace
        self._measures = pipeline.spec.measures
        self._task = self._progress.add_task(pipeline.config.workload, total=self._total, completed=env_steps)
        self._live.start()
        self._running = True

    def row(self, row: Mapping[str, Any]) -> None:
        self._row = row
        if self._task is not None:
            self._progress.update(self._task, completed=min(row["env_steps"], self._total))

    def finish(self, summary: Mapping[str, Any]) -> None:
        self.close()
        for line in closing(summary):
            self.console.print(line, markup=False, highlight=False)

    def close(self) -> None:
        if self._running:
            self._running = False
            self._live.stop()

    def _draw(self) -> Any:
        from rich.console import Group
        from rich.table import Table

        table = Table.grid(padding=(0, 2))
        pairs = cells(self._row, self._total, self._measures) if self._row else [("", "first env steps …")]
        if self._trace is not None:
            pairs = [*pairs, ("time", shares(self._trace))]
        for name, text in pairs:
            table.add_row(f"[dim]{name}[/dim]", text)
        return Group(self._progress, table)


def display(quiet: bool, json: bool) -> Quiet | Lines | Live:
    """The one that fits where the output goes."""
    if quiet or json:
        return Quiet()
    return Live() if sys.stdout.isatty() else Lines()


def opening(pipeline: Any, env_steps: int) -> list[str]:
    """What is about to run, before step 1."""
    config, cycle = pipeline.config, pipeline.cycle
    every = getattr(pipeline, "pipelines", [pipeline])  # several where several seeds are trained at once
    store, program, last = every[0].store, every[0].learner.program, every[-1].config.seed
    seeds = f"seed {config.seed}" if len(every) == 1 else f"each of {len(every)} seeds, {config.seed} to {last}"
    warm = " · ".join(f"{name} {seconds:.2f} s" for name, seconds in pipeline.warm_seconds.items())
    origin = {"cache": "from the cache", "compiled": "compiled, and cached for the next start", "eager": "eager"}
    lines = [
        f"{config.workload}: {config.lanes} lanes, {config.total_env_steps:,} env steps, "
        f"{config.samples_per_step:g} samples per step ({cycle.updates} updates of {config.learner.samples_per_update} "
        f"per cycle of {cycle.steps} × {config.lanes} env steps), {seeds}",
        f"replay: {store.plan.total * len(every) / 2**20:.1f} MiB for {store.plan.capacity * len(every):,} transitions",
        f"warm-up: {warm} (update {origin[program.origin]})",
    ]
    if env_steps:
        lines.append(f"resumed at {env_steps:,} env steps")
    if not pipeline.exact:
        why = (
            "this environment cannot give its state"
            if not pipeline.spec.exact
            else "workers collect as fast as each can"
        )
        lines.append(f"exact: false — {why}, so a resume starts new episodes")
    return lines + [f"note: {note}" for note in pipeline.notes]


def cells(row: Mapping[str, Any], total: int, measures: Sequence[str]) -> list[tuple[str, str]]:
    """One row of metrics as pairs of name and text."""
    agents = row.get("agents", 1)
    out = [
        ("env steps", f"{row['env_steps']:,}" + (f" / {total:,}" if total else "") + (" each" if agents > 1 else "")),
        ("env steps/s", f"{row['env_steps_per_s']:,.0f}"),
        ("samples per step", f"{row['samples_per_step']:g}"),
        ("updates", f"{row['updates']:,}"),
        *_exploration(row),
    ]
    for key, name in (("loss", "loss"), ("q", "Q"), ("return_mean", "return"), ("eval_return_mean", "greedy return")):
        if row.get(key) is not None:
            spread = f" [{row[f'{key}_range'][0]:.4g}, {row[f'{key}_range'][1]:.4g}]" if f"{key}_range" in row else ""
            out.append((name, f"{row[key]:.4g}{spread}"))
    out += [(name, f"{row[name]:.3g}") for name in measures if row.get(name) is not None]
    if "worker_produced" in row:
        out.append(("workers", _workers(row)))
    left = (total - row["env_steps"]) * agents / row["env_steps_per_s"] if total and row["env_steps_per_s"] > 0 else 0
    return [*out, ("left", f"{left:.0f} s")] if left > 0 else out


def _exploration(row: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Epsilon, of all lanes or from the least to the most; or what else decides how much is tried out."""
    if "epsilon_least" in row:
        return [("epsilon by lane", f"{row['epsilon_least']:.2g} … {row['epsilon_most']:.2g}")]
    return [(name, f"{row[name]:.3f}") for name in ("epsilon", "temperature") if name in row]


def _workers(row: Mapping[str, Any]) -> str:
    """How the processes that collect are."""
    made = {k: sum(row[f"worker_{k}"].values()) for k in ("produced", "lost", "dropped")}
    there = len(row["worker_produced"]) - row["workers_given_up"]
    parts = [f"{there} of {len(row['worker_produced'])}", f"rings {100 * row['ring_filled']:.0f}% full"]
    parts += [f"{row['worker_restarts']} restarts"] if row["worker_restarts"] else []
    parts += [f"{made[k]:,} {k}" for k in ("lost", "dropped") if made[k]]
    return " · ".join(parts)


def shares(trace: Any) -> str:
    """Where the time went so far, per thread, as shares of that thread's recorded time."""
    totals = {f"{t.track}/{t.name}": t.total_ns for t in trace.totals()}
    parts = []
    for track in ("main", "learn"):
        own = {k.partition("/")[2]: v for k, v in totals.items() if k.startswith(f"{track}/")}
        whole = sum(own.values())
        if whole:
            parts.append(f"{track}: " + " ".join(f"{k} {100 * v / whole:.0f}%" for k, v in own.items()))
    return " · ".join(parts)


def closing(summary: Mapping[str, Any]) -> list[str]:
    """What it came to, and where it is."""
    if "agents" in summary:
        return _closing_seeds(summary)
    low, high = summary["return_ci"]
    speed = summary["env_steps_per_s"]
    lines = [
        f"{summary['env_steps']:,} env steps, {summary['updates']:,} updates of {summary['batch']} "
        f"({summary['samples_per_step']:g} samples per step) in {summary['train_s']:.1f} s"
        + (f": {speed:,.0f} env steps/s while learning" if speed else "")
        + (
            f", first window {summary['first_window_ratio']:.2f} of the median" if summary["first_window_ratio"] else ""
        ),
        f"greedy return {summary['return_mean']:.2f} [{low:.2f}, {high:.2f}] over {summary['episodes']} episodes"
        + "".join(f" · {k} {v[0]:.3g} [{v[1]:.3g}, {v[2]:.3g}]" for k, v in summary["measures"].items()),
    ]
    if summary.get("not_evaluated"):
        lines.append(f"not evaluated: {summary['not_evaluated']}")
    if summary.get("workers", {}).get("worker_restarts"):
        lines.append(f"workers: {_workers(summary['workers'])}")
    if summary["unfinished_episodes"]:
        lines.append(f"{summary['unfinished_episodes']} of these episodes did not end and are counted as they stood")
    if summary["refused_updates"]:
        lines.append(f"{summary['refused_updates']} updates refused: loss or gradient was not finite")
    if summary["stopped_by_signal"]:
        lines.append("stopped by a signal; checkpoint saved, go on with: hotloop resume " + summary["run"])
    return [
        *lines,
        f"run      {summary['run']}",
        *([f"report   {summary['run']}/{summary['report']}"] if summary["report"] else []),
        f"trace    {summary['run']}/trace.json (open in ui.perfetto.dev)",
        f"weights  {summary['run']}/weights.safetensors",
    ]


def _closing_seeds(summary: Mapping[str, Any]) -> list[str]:
    """Of several seeds trained at once."""
    agents, speed, run = summary["agents"], summary["env_steps_per_s"], summary["run"]
    low, high = summary["return_ci"]
    lines = [
        f"{len(agents)} seeds, {summary['env_steps']:,} env steps, {summary['updates']:,} updates of "
        f"{summary['batch']} ({summary['samples_per_step']:g} samples per step) in {summary['train_s']:.1f} s"
        + (f": {speed:,.0f} env steps/s while learning, all together" if speed else ""),
        f"greedy return, mean {summary['return_mean']:.2f}, interquartile mean "
        f"{summary['return_interquartile_mean']:.2f} [{low:.2f}, {high:.2f}] over seeds, "
        f"from {summary['return_min']:.2f} to {summary['return_max']:.2f}",
        "by seed: " + "  ".join(f"{a['seed']}: {a['return_mean']:.4g}" for a in agents),
    ]
    if summary["refused_updates"]:
        lines.append(f"{summary['refused_updates']} updates refused: loss or gradient was not finite")
    if summary["stopped_by_signal"]:
        lines.append(f"stopped by a signal; checkpoints saved, go on with: hotloop resume {run}")
    return [
        *lines,
        f"runs     {run}/s{agents[0]['seed']} … s{agents[-1]['seed']}",
        *([f"report   {run}/{summary['report']}"] if summary["report"] else []),
        f"trace    {run}/trace.json (open in ui.perfetto.dev)",
    ]
