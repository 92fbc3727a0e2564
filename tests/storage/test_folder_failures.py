"""Folders against real failures: SIGKILL at every change of the disk, a full disk, a read-only one, a size limit.

Run as a program, this file is the other process of those tests: `test_folder_failures.py ACTION FOLDER`.
"""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType

import pytest
from folder_versions import version, version_of

from saccade.errors import StorageError
from saccade.storage import write_folder

NO_MOUNT = 77  # the exit code of a process that may not mount
#: The calls that change what is on disk: between two of them a kill finds the same state everywhere.
CHANGES = (os.mkdir, os.open, os.write, os.fsync, os.rename, os.unlink, os.rmdir)


def run_action(action: str, folder: Path, *before: str) -> subprocess.CompletedProcess[str]:
    command = [*before, sys.executable, __file__, action, str(folder)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


@pytest.fixture
def killer(tmp_path: Path) -> Iterator[Callable[[int], str]]:
    """Replaces `run` by version 2 in another process, which dies by SIGKILL at its n-th change of the disk."""
    command = [sys.executable, __file__, "die-at", str(tmp_path / "run")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        stdin, stdout = process.stdin, process.stdout

        def kill(call: int) -> str:
            stdin.write(f"{call}\n")
            stdin.flush()
            return stdout.readline().strip()

        yield kill


def test_a_kill_at_any_call_leaves_the_old_folder_or_the_new(tmp_path: Path, killer: Callable[[int], str]) -> None:
    target = tmp_path / "run"
    left: set[int] = set()
    moments_without_target = 0
    call = 0
    outcome = "killed"
    write_folder(target, version(1))
    while outcome == "killed":
        call += 1
        (target / "notes.txt").write_text(f"before call {call}")
        outcome = killer(call)
        moments_without_target += not target.exists()
        left.add(version_of(target))
        write_folder(target, version(1))
        assert (target / "notes.txt").read_text() == f"before call {call}"
        assert os.listdir(tmp_path) == ["run"]
    assert outcome == "finished"
    assert left == {1, 2}
    assert moments_without_target > 0  # the kill did fall between the two renames, and was recovered from
    assert call > 30


def test_a_limit_of_file_size_is_an_error_and_not_the_end(tmp_path: Path) -> None:
    done = run_action("limit", tmp_path / "run")
    assert done.stdout == f"Cannot write {tmp_path / 'run'}: File too large.\n", done.stderr
    assert version_of(tmp_path / "run") == 1
    assert os.listdir(tmp_path) == ["run"]


def in_own_mounts(action: str, folder: Path) -> str:
    """What `action` prints with a tmpfs of 1 MB on `folder`, in a mount namespace that dies with the process."""
    folder.mkdir()
    namespaces = ["--mount"] if os.geteuid() == 0 else ["--user", "--map-root-user", "--mount"]
    script = f'mount -t tmpfs -o size=1m tmpfs "$0" || exit {NO_MOUNT}; exec "$@"'
    try:
        done = run_action(action, folder / "run", "unshare", *namespaces, "sh", "-c", script, str(folder))
    except FileNotFoundError:
        pytest.skip("tmpfs cannot be mounted")
    if done.returncode == NO_MOUNT or "unshare" in done.stderr:
        pytest.skip("tmpfs cannot be mounted")
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_full_disk_and_a_read_only_one_leave_the_old_folder(tmp_path: Path) -> None:
    folder = tmp_path / "small"
    full, read_only = in_own_mounts("full-and-read-only", folder).splitlines()
    assert full == f"Cannot write {folder / 'run'}: No space left on device."
    assert read_only == f"Cannot write {folder / 'run'}: Read-only file system."


def test_a_path_below_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("a file")
    with pytest.raises(StorageError, match=r"Cannot write .*file/runs/run: (Not a directory|File exists)\."):
        write_folder(tmp_path / "file" / "runs" / "run", version(1))
    assert (tmp_path / "file").read_text() == "a file"


def die_at(target: Path) -> None:
    """For each number read, fork a process that replaces `target` and dies at that change of the disk."""
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            remaining = int(line)

            def count(frame: FrameType, event: str, function: object) -> None:
                nonlocal remaining
                if event == "c_call" and function in CHANGES:
                    remaining -= 1
                    if remaining == 0:
                        os.kill(os.getpid(), signal.SIGKILL)

            files = version(2)
            sys.setprofile(count)
            write_folder(target, files)
            sys.setprofile(None)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        outcomes = {-signal.SIGKILL: "killed", 0: "finished"}
        print(outcomes.get(os.waitstatus_to_exitcode(status), "failed"), flush=True)


def limit(target: Path) -> None:
    write_folder(target, version(1))
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
    expect_refusal(target)


def full_and_read_only(target: Path) -> None:
    write_folder(target, version(1, size=50_000))  # 600 kB of 1 MB: a second one does not fit beside it
    expect_refusal(target)
    subprocess.run(["mount", "-o", "remount,ro", str(target.parent)], check=True)
    expect_refusal(target)


def expect_refusal(target: Path) -> None:
    try:
        write_folder(target, version(2, size=50_000))
    except StorageError as error:
        assert version_of(target) == 1
        assert os.listdir(target.parent) == ["run"]
        print(error)


if __name__ == "__main__":
    actions = {"die-at": die_at, "limit": limit, "full-and-read-only": full_and_read_only}
    actions[sys.argv[1]](Path(sys.argv[2]))
