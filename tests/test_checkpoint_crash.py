"""A crash, a full disk or a dying one never costs more than the checkpoint being written. What no kill can show is
the disk's own cache: that every fsync comes before the rename, and the folder's after it, is asserted as an order."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from hotloop.checkpoint import DATA, MANIFEST, Checkpoint, digest, load, load_latest, save
from hotloop.core.errors import UserError


@pytest.fixture
def tmp_path(tmp_path):
    """In memory where there is some: thousands of fsyncs would wait for whoever else uses the disk."""
    if not os.access("/dev/shm", os.W_OK):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir="/dev/shm", prefix="hotloop-test-") as folder:
        yield Path(folder)


def arrays_at(env_steps: int) -> dict[str, np.ndarray]:
    """Different for every step, so that two checkpoints can never be taken for one another."""
    return {
        "weights": np.arange(300, dtype=np.float32) + env_steps,
        "cursor": np.array(env_steps),
        "mask": np.eye(3) > 0,
    }


def save_at(folder: Path, env_steps: int, keep: int = 3) -> Path:
    return save(folder, env_steps, arrays_at(env_steps), {"env_steps": env_steps}, keep)


def assert_sound(found: Checkpoint, env_steps: int) -> None:
    assert found.env_steps == found.meta["env_steps"] == env_steps
    assert digest(found.arrays) == digest(arrays_at(env_steps))


def names(folder: Path) -> list[str]:
    return sorted(os.listdir(folder))


STEPS = ("open", "write", "fsync", "close", "rename", "mkdir", "unlink", "rmdir", "lstat", "listdir")


def wrap(monkeypatch, before) -> list[str]:
    """Call `before(number, name)` ahead of each call into the system that a save makes. Returns the log of names."""
    log: list[str] = []

    def wrapped(name, call, *args, **kwargs):
        log.append(name)
        before(len(log), name)
        return call(*args, **kwargs)

    for name in STEPS:
        monkeypatch.setattr(os, name, partial(wrapped, name, getattr(os, name)))
    return log


def two_saved(folder: Path) -> Path:
    save_at(folder, 1, keep=2)
    save_at(folder, 2, keep=2)
    return folder


@pytest.mark.parametrize("lasting", [False, True], ids=["once", "from then on"])
def test_an_error_at_any_step_leaves_a_checkpoint(tmp_path, lasting):
    with pytest.MonkeyPatch.context() as patch:
        log = wrap(patch, lambda number, name: None)
        save_at(two_saved(tmp_path / "count"), 3, keep=2)
    calls = len(log) - log.index("mkdir")  # some more than one save makes
    outcomes = Counter()
    for n in range(1, calls + 20):
        folder = two_saved(tmp_path / str(n))

        def fail(number, name, n=n):
            if number == n or (lasting and number > n):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        with pytest.MonkeyPatch.context() as patch:
            wrap(patch, fail)
            try:
                save_at(folder, 3, keep=2)
                saved = 3
            except UserError as error:
                assert "No space left" in str(error) and "\n" not in str(error)
                saved = 2
        outcomes[saved] += 1
        found = load_latest(folder)
        if not (lasting and saved == 2):  # a disk that stays dead may keep a published one that was not verified
            assert_sound(found, saved)
        assert found.refused == []
        if not lasting and saved == 2:
            assert names(folder) == ["checkpoint-000000000001", "checkpoint-000000000002"]
        save_at(folder, 4, keep=2)  # and the next one goes well, and sweeps
        assert_sound(load_latest(folder), 4)
        assert len(names(folder)) == 2 and not any(name.startswith(".") for name in names(folder))
    assert min(outcomes[2], outcomes[3]) > 5  # the sweep reached into the save and past its end


def test_synced_before_published_verified_before_pruned(tmp_path, monkeypatch):
    two_saved(tmp_path)
    log = wrap(monkeypatch, lambda number, name: None)
    save_at(tmp_path, 3, keep=1)
    doing = " ".join(name for name in log if name not in ("listdir", "close"))
    written = "mkdir open write write write write fsync open write fsync open fsync rename"
    assert doing.startswith(f"{written} open fsync lstat lstat rename")  # …, folder synced, both files read, pruned


def test_what_the_disk_garbles_is_not_reported_as_saved(tmp_path, monkeypatch):
    two_saved(tmp_path)
    write = os.write
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", lambda file, data: write(file, bytes(data)[:-1] + bytes([bytes(data)[-1] ^ 1])))
        with pytest.raises(UserError, match="not saved in"):
            save_at(tmp_path, 3, keep=1)
    assert names(tmp_path) == ["checkpoint-000000000001", "checkpoint-000000000002"]
    assert_sound(load_latest(tmp_path), 2)


def test_short_writes_are_finished(tmp_path, monkeypatch):
    write = os.write
    monkeypatch.setattr(os, "write", lambda file, data: write(file, data[: max(1, len(data) // 3)]))
    assert_sound(load(save_at(tmp_path, 3)), 3)


def test_an_interrupt_leaves_nothing_behind(tmp_path):
    two_saved(tmp_path)

    def interrupt(number, name):
        if name == "fsync":
            raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        wrap(patch, interrupt)
        with pytest.raises(KeyboardInterrupt):
            save_at(tmp_path, 3)
    assert names(tmp_path) == ["checkpoint-000000000001", "checkpoint-000000000002"]


def run(script: str, *args: object, before: tuple[str, ...] = (), **kwargs) -> subprocess.CompletedProcess[str]:
    command = [*before, sys.executable, "-W", "error", "-c", script, *map(str, args)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([*sys.path, str(Path(__file__).parent)])}
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=False, **kwargs)


DIE_EVERYWHERE = """
# A process per system call of a save, which dies on reaching it; a write is first half done.
import os, sys
from pathlib import Path
import pytest
from test_checkpoint_crash import assert_sound, load_latest, names, save_at, two_saved, wrap
write, died, n = os.write, 0, 0
while True:
    n += 1
    folder = two_saved(Path(sys.argv[1]) / str(n))
    child = os.fork()
    if child == 0:
        patch = pytest.MonkeyPatch()
        def half(file, data):
            if len(log) + 1 == n:
                write(file, data[: len(data) // 2])
                os._exit(9)
            log.append("write")
            return write(file, data)
        log = wrap(patch, lambda number, name: os._exit(9) if number == n else None)
        patch.setattr(os, "write", half)
        save_at(folder, 3, keep=1)
        os._exit(0)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    found = load_latest(folder)
    assert found.refused == [], found.refused
    assert_sound(found, found.env_steps)
    assert found.env_steps == 3 or code == 9
    save_at(folder, 4, keep=1)
    assert names(folder) == ["checkpoint-000000000004"], names(folder)
    if code == 0:
        break
    assert code == 9
    died += 1
print(died)
"""


def test_death_before_every_system_call_leaves_a_checkpoint(tmp_path):
    done = run(DIE_EVERYWHERE, tmp_path)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 25


SAVE_ONE = """
import sys
from pathlib import Path
from test_checkpoint_crash import save_at
save_at(Path(sys.argv[1]), 3, keep=1)
print("saved")
"""


def traced(folder: Path, log: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """One save under strace, which looks only at what concerns the folder."""
    new, old = folder / ".writing-checkpoint-000000000003", "checkpoint-00000000000"
    paths = [folder, new, new / DATA, new / MANIFEST, folder / f"{old}3"]
    for n in (1, 2):
        gone = folder / f".writing-pruned-{old}{n}"
        paths += [folder / f"{old}{n}", gone, gone / DATA, gone / MANIFEST, DATA, MANIFEST]
    watch = [f"-P{path}" for path in paths]
    return run(SAVE_ONE, folder, before=("strace", "-f", "-qq", "-o", str(log), *watch, *options))


@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed: kill -9 at every syscall not run")
def test_kill_at_every_syscall_leaves_a_checkpoint(tmp_path):
    calls = ("openat", "write", "fsync", "rename", "mkdir", "unlinkat", "rmdir")
    seen = traced(two_saved(tmp_path / "count"), tmp_path / "log", f"-etrace={','.join(calls)}")
    if "ptrace" in seen.stderr.lower() and "saved" not in seen.stdout:
        pytest.skip(f"strace may not trace here: {seen.stderr.strip()}")
    assert seen.stdout == "saved\n", seen.stderr
    counts = Counter(line.split()[1].split("(")[0] for line in (tmp_path / "log").read_text().splitlines())
    assert counts["fsync"] == 4 and counts["rename"] == 3 and counts["write"] >= 5, counts

    def one(call: str, n: int, fault: str) -> None:
        folder = two_saved(tmp_path / f"{call}-{n}-{fault}")
        log = folder.with_suffix(".log")
        done = traced(folder, log, f"-etrace={call}", f"-einject={call}:{fault}:when={n}")
        found = load_latest(folder)
        assert found.refused == [] and found.env_steps in (2, 3), (call, n, fault)
        assert_sound(found, found.env_steps)
        if fault == "signal=KILL":
            assert "killed by SIGKILL" in log.read_text(), (call, n)
        elif "saved" not in done.stdout:
            assert "UserError" in done.stderr and names(folder)[0][0] == "c", (call, n, done.stderr)
        if "saved" in done.stdout:
            assert found.env_steps == 3

    kills = [(call, n, "signal=KILL") for call, count in counts.items() for n in range(1, count + 1)]
    full = [("write", n, "error=ENOSPC") for n in range(1, counts["write"] + 1)]
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(one, *zip(*kills, *full, ("fsync", 1, "error=EIO"), strict=True)))


FILL_A_DISK = """
import os, sys
from pathlib import Path
import numpy as np
from hotloop.core.errors import UserError
from test_checkpoint_crash import assert_sound, load_latest, names, save, save_at
folder = Path(sys.argv[1])
save_at(folder, 1)
for size in (1_900_000, 3_000_000, 30_000_000):
    try:
        save(folder, 2, {"a": np.ones(size, np.uint8), "b": np.ones(200_000, np.uint8)}, {})
    except UserError as error:
        assert "No space left" in str(error) and "free space" in str(error), error
    else:
        raise AssertionError(size)
    assert names(folder) == ["checkpoint-000000000001"], names(folder)
    assert_sound(load_latest(folder), 1)
save(folder, 3, {"a": np.ones(1_000_000, np.uint8)}, {})
assert load_latest(folder).env_steps == 3
print("held")
"""


def test_a_full_disk(tmp_path):
    mount = 'mount -t tmpfs -o size=2m hotloop-test "$0" && exec "$@"'
    if (
        shutil.which("unshare") is None
        or run("", before=("unshare", "-m", "sh", "-c", mount, str(tmp_path))).returncode
    ):
        pytest.skip("a tmpfs of 2 MB cannot be mounted here: the test of a full disk needs root")
    done = run(FILL_A_DISK, tmp_path, before=("unshare", "-m", "sh", "-c", mount, str(tmp_path)))
    assert done.stdout == "held\n", done.stderr
