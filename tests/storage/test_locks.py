"""Locks between processes: on the path itself where the system can, and by a file that stands for it elsewhere."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from saccade.storage.locks import lock

#: Takes the lock of a folder, says so, and holds it until it is killed.
HOLD = """
    import sys
    from pathlib import Path
    {first}
    from saccade.storage.locks import lock
    with lock(Path(sys.argv[1])) as is_ours:
        print(is_ours, flush=True)
        sys.stdin.read()
"""
#: Python has no fcntl on Windows; the library that then locks has loaded its own before.
NO_FCNTL = "import filelock; sys.modules['fcntl'] = None"


@pytest.fixture(params=["", NO_FCNTL], ids=["flock", "elsewhere"])
def first(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param:
        import filelock  # noqa: F401

        monkeypatch.setitem(sys.modules, "fcntl", None)
    return str(request.param)


def test_a_lock_excludes_other_processes_until_its_holder_dies(first: str, tmp_path: Path) -> None:
    code = textwrap.dedent(HOLD).format(first=first)
    command = [sys.executable, "-c", code, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        try:
            assert holder.stdout is not None
            assert holder.stdout.readline() == "True\n"
            with lock(tmp_path, seconds=0.05) as is_ours:
                assert not is_ours
        finally:
            holder.kill()
    with lock(tmp_path) as is_ours:
        assert is_ours
    with lock(tmp_path, seconds=None) as is_ours:  # it was given back
        assert is_ours


def test_a_lock_is_given_back_when_the_work_under_it_fails(first: str, tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), lock(tmp_path):
        1 / 0  # noqa: B018
    with lock(tmp_path) as is_ours:
        assert is_ours


def test_what_is_not_there_cannot_be_locked(first: str, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), lock(tmp_path / "none"):
        pass


def test_shared_locks_exclude_only_exclusive_ones(tmp_path: Path) -> None:
    with lock(tmp_path, shared=True), lock(tmp_path, shared=True) as is_ours:
        assert is_ours
        with lock(tmp_path) as is_ours:
            assert not is_ours
