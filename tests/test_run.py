"""A run's folder is made once, held by one trainer, and never ends the run that writes into it."""

from __future__ import annotations

import errno
import json
import math
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from hotloop import run
from hotloop.core.errors import MissingExtra, UserError
from hotloop.run import RunFolder, events


def child(script: str, *args: object, before: tuple[str, ...] = (), **kwargs) -> subprocess.CompletedProcess[str]:
    command = [*before, sys.executable, "-W", "error", "-c", script, *map(str, args)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=False, **kwargs)


@pytest.fixture
def folder(tmp_path):
    warned: list[str] = []
    with RunFolder.create(tmp_path / "run", "snake", 1, warned.append) as folder:
        folder.warned = warned  # type: ignore[attr-defined]
        yield folder


def lines(folder) -> list[str]:
    return (folder.path / "metrics.jsonl").read_text().splitlines()


# --- names and the lock ----------------------------------------------------------------------------------------------


def test_default_names_take_the_next_number(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    made = [RunFolder.create(None, "snake", 1), RunFolder.create(None, "snake", 1), RunFolder.create(None, "snake", 12)]
    shutil.rmtree("runs/snake-s1-1")
    (tmp_path / "runs" / "snake-s1-9x").mkdir()
    made += [RunFolder.create(None, "snake", 1), RunFolder.create(None, "../my.games:Maze v0", 1)]
    names = [str(f.path) for f in made]
    assert names == [
        *("runs/snake-s1-1", "runs/snake-s1-2", "runs/snake-s12-1", "runs/snake-s1-3"),
        "runs/my.games-Maze-v0-s1-1",
    ]
    for f in made:
        f.close()


@pytest.mark.parametrize("name", ["config.toml", "metrics.jsonl", "summary.json", "checkpoints"])
def test_a_folder_that_holds_a_run_is_refused(tmp_path, name):
    (tmp_path / "notes.txt").touch()
    RunFolder.create(tmp_path, "snake", 1).close()  # other things in it do no harm
    (tmp_path / name).mkdir()
    with pytest.raises(UserError, match=r"already holds a run.*resume it or choose another"):
        RunFolder.create(tmp_path, "snake", 1)
    assert sorted(os.listdir(tmp_path)) == sorted([name, "notes.txt"])


def test_open_wants_a_run(tmp_path, folder):
    with pytest.raises(UserError, match=r"no config\.toml in it"):
        RunFolder.open(folder.path)
    folder.write_config({})
    assert RunFolder.open(folder.path).path == folder.path
    with pytest.raises(UserError, match="no such folder"):
        RunFolder.open(tmp_path / "nowhere")


def test_a_second_trainer_is_told_by_whom_it_is_kept_out(folder):
    folder.write_config({})
    again = RunFolder.open(folder.path)
    with pytest.raises(UserError, match=f"in use by process {os.getpid()};"):
        again.lock()
    done = child("import sys; from hotloop.run import RunFolder; RunFolder.create(sys.argv[1], 's', 1)", folder.path)
    assert f"UserError: {folder.path} is in use by process {os.getpid()}" in done.stderr
    folder.close()
    again.lock().close()


HOLD = "import sys; from hotloop.run import RunFolder; f = RunFolder.create(sys.argv[1], 's', 1); print(1, flush=True)"


def test_death_frees_the_lock(tmp_path):
    holder = subprocess.Popen(
        [sys.executable, "-c", f"{HOLD}; sys.stdin.read()", str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    with holder:
        assert holder.stdout and holder.stdout.readline()
        with pytest.raises(UserError, match=f"in use by process {holder.pid};"):
            RunFolder.create(tmp_path, "s", 1)
        holder.kill()
    RunFolder.create(tmp_path, "s", 1).close()  # though the dead one's pid still stands there


def test_where_no_folder_can_be(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match="cannot make the run folder"):
        RunFolder.create(tmp_path / "file" / "run", "s", 1)


# --- config and summary ----------------------------------------------------------------------------------------------


def test_config_round_trip(folder):
    config = {"workload": "snake", "learn": {"lr": 1e-4, "layers": [64, 64]}, "replay": {"capacity": None}}
    folder.write_config(config)
    assert folder.read_config() == {**config, "replay": {"capacity": "none"}}


def test_summary_is_strict_json(folder):
    summary = {
        "return_mean": math.nan,
        "return_ci": (np.float32(0.5), math.inf),
        "updates": np.int64(7),
        "exact": np.bool_(True),
        "path": Path("a"),
        "loss": np.array([1.0, np.nan]),
    }
    folder.write_summary({"old": 1})
    folder.write_summary(summary)
    text = (folder.path / "summary.json").read_text()
    assert "NaN" not in text and "Infinity" not in text
    assert folder.read_summary() == {
        "return_mean": None,
        "return_ci": [0.5, None],
        "updates": 7,
        "exact": True,
        "path": "a",
        "loss": [1.0, None],
    }
    assert [n for n in os.listdir(folder.path) if n.startswith(".")] == []


def test_a_failed_write_is_one_line_and_keeps_the_old(folder, monkeypatch):
    folder.write_summary({"a": 1})

    def full(file):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(UserError, match=r"summary\.json: No space left on device; free space"):
            folder.write_summary({"a": 2})
    with pytest.raises(UserError, match="is not Unicode"):
        folder.write_config({"a": "\ud800"})
    assert folder.read_summary() == {"a": 1}
    assert sorted(os.listdir(folder.path)) == ["summary.json", "trainer.pid"]


def test_what_is_missing_or_damaged_is_one_line(folder):
    with pytest.raises(UserError, match=r"no summary\.json in"):
        folder.read_summary()
    cases = [("summary.json", folder.read_summary, t) for t in ("", "[1]", "3", "{", "[" * 100_000, "\x00")]
    cases += [("config.toml", folder.read_config, t) for t in ("{", "a = 1\nb", "a = " + "[" * 100_000, "\x00")]
    for name, read, text in cases:
        (folder.path / name).write_text(text)
        with pytest.raises(UserError, match="is damaged") as error:
            read()
        assert "\n" not in str(error.value)


# --- metrics ---------------------------------------------------------------------------------------------------------


def test_a_row_is_on_its_way_when_metrics_returns(folder):
    for i in range(3):
        folder.metrics({"env_steps": np.int64(i), "loss": np.float32("nan"), "name": "ü\u2028\ud800"})
        assert json.loads(lines(folder)[i]) == {"env_steps": i, "loss": None, "name": "ü\u2028\ud800"}
    assert len(folder.read_metrics()) == 3


def test_cut_drops_what_a_resume_writes_again(folder):
    rows = [{"env_steps": 100 * i, "x": i} for i in range(6)]
    for row in [*rows[:5], {"env_steps": 150, "late evaluation": 1}, {"note": 1}, rows[5]]:
        folder.metrics(row)
    folder.cut_metrics(300)
    assert folder.read_metrics() == [*rows[:4], {"env_steps": 150, "late evaluation": 1}, {"note": 1}]
    folder.metrics(rows[4])  # goes to the new file, not to the one replaced
    assert folder.read_metrics()[-1] == rows[4]
    folder.cut_metrics(0)
    assert folder.read_metrics() == [rows[0], {"note": 1}]


def test_cut_without_metrics_is_nothing(folder):
    folder.cut_metrics(5)
    assert folder.read_metrics() == [] and not (folder.path / "metrics.jsonl").exists()


def test_a_half_line_spoils_no_other(folder):
    path = folder.path / "metrics.jsonl"
    path.write_text('{"env_steps": 1}\n{"env_st')
    assert folder.read_metrics() == [{"env_steps": 1}]
    folder.metrics({"env_steps": 2})
    assert folder.read_metrics() == [{"env_steps": 1}, {"env_steps": 2}]
    folder.cut_metrics(9)
    assert path.read_text() == '{"env_steps": 1}\n{"env_steps": 2}\n'


def test_failing_writes_are_told_once_counted_and_leave_whole_lines(folder, monkeypatch):
    folder.metrics({"env_steps": 0})
    write = os.write
    with monkeypatch.context() as patch:

        def nearly_full(file, data):
            if len(data) > 5:
                return write(file, data[:5])
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        patch.setattr(os, "write", nearly_full)
        for i in range(1, 4):
            folder.metrics({"env_steps": i})
    folder.metrics({"env_steps": 4})
    assert [row["env_steps"] for row in folder.read_metrics()] == [0, 4]
    assert len(lines(folder)) == 2
    assert folder.metrics_lost == 3
    assert len(folder.warned) == 1 and "No space left" in folder.warned[0]


def test_metrics_that_cannot_even_be_opened(folder):
    (folder.path / "metrics.jsonl").mkdir()
    folder.metrics({"env_steps": 1})
    folder.metrics({"env_steps": 2})
    assert folder.metrics_lost == 2 and len(folder.warned) == 1


FILL_A_DISK = """
import sys
from pathlib import Path
from hotloop.core.errors import MissingExtra, UserError
from hotloop.run import RunFolder, events
warned = []
folder = RunFolder.create(Path(sys.argv[1]) / "run", "s", 1, warned.append)
try:
    write = events(folder)
except MissingExtra:
    write = None
for i in range(3000):
    folder.metrics({"env_steps": i, "pad": "x" * 1000})
assert 0 < folder.metrics_lost < 2500 and len(warned) == 1, (folder.metrics_lost, warned)
rows = [row["env_steps"] for row in folder.read_metrics()]
assert len(rows) + folder.metrics_lost == 3000
assert (folder.path / "metrics.jsonl").read_text().count("\\n") == len(rows)
if write:
    for i in range(2000):
        write({"env_steps": i, "x": i})
    assert len(warned) == 2 and "without TensorBoard events" in warned[1], warned
try:
    folder.write_summary({"pad": "x" * 100_000})
except UserError as error:
    assert "No space left" in str(error)
else:
    raise AssertionError
assert sorted(p.name for p in folder.path.iterdir()) == ["metrics.jsonl", *["tensorboard"] * bool(write), "trainer.pid"]
folder.close()
print("held")
"""


def test_a_full_disk_does_not_end_the_run(tmp_path):
    mount = ("unshare", "-m", "sh", "-c", 'mount -t tmpfs -o size=2m hotloop-test "$0" && exec "$@"', str(tmp_path))
    if shutil.which("unshare") is None or child("", before=mount).returncode:
        pytest.skip("a tmpfs of 2 MB cannot be mounted here: the test of a full disk needs root")
    done = child(FILL_A_DISK, tmp_path, before=mount)
    assert done.stdout == "held\n", done.stderr


# --- TensorBoard and imports -----------------------------------------------------------------------------------------


def scalars(folder) -> dict[str, list[tuple[int, float]]]:
    """As TensorBoard itself reads them."""
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    read = accumulator.EventAccumulator(str(folder.path / "tensorboard"))
    read.Reload()
    return {tag: [(e.step, e.value) for e in read.Scalars(tag)] for tag in read.Tags()["scalars"]}


def test_tensorboard_reads_what_is_written(folder):
    pytest.importorskip("tensorboard")
    write = events(folder)
    assert write is not None
    for i in range(4):
        write({"env_steps": 100 * i, "loss": np.float32(i), "on": True, "name": "x", "measures": {"score": i + 0.5}})
    assert scalars(folder) == {
        "loss": [(0, 0.0), (100, 1.0), (200, 2.0), (300, 3.0)],
        "measures/score": [(0, 0.5), (100, 1.5), (200, 2.5), (300, 3.5)],
    }
    resumed = events(folder, resumed_at=200)  # what was written after step 200 is written again
    assert resumed is not None
    resumed({"env_steps": 300, "loss": 7.0})
    assert scalars(folder)["loss"] == [(0, 0.0), (100, 1.0), (200, 2.0), (300, 7.0)]
    assert sorted(os.listdir(folder.path / "tensorboard")) == [f"events.out.tfevents.{i:06d}" for i in range(2)]


def test_events_that_are_not_asked_for_or_not_installed(folder, monkeypatch):
    assert events(folder, asked=False) is None
    monkeypatch.setitem(sys.modules, "tensorboard.compat.proto.event_pb2", None)
    with pytest.raises(MissingExtra, match=r'pip install "hotloop\[tensorboard\]"'):
        events(folder)
    assert not (folder.path / "tensorboard").exists()


def test_no_torch_and_nothing_slow_is_imported():
    modules = "import hotloop.run, hotloop.trace, hotloop.checkpoint, sys"
    done = child(f"{modules}; print([m for m in ('torch', 'tensorboard', 'numba', 'safetensors') if m in sys.modules])")
    assert done.stdout == "[]\n", done.stderr
    assert run.__doc__
