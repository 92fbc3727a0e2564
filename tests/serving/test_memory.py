"""Memory that is no longer used goes back to the system, so that the server needs little more than what it keeps."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from saccade.serving import memory

#: Frees 300 MB below a block that stays, and prints how many megabytes the process holds more than at first, before
#: and after it gives them back.
PROGRAM = """
import resource, threading
from pathlib import Path
from saccade.serving import memory

def held() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / 1e6
def work(kept=[]):
    blocks = [bytearray(60_000) for _ in range(5000)]
    kept.append(blocks[-1])
before = held()
thread = threading.Thread(target=work)
thread.start()
thread.join()
print(held() - before)
memory.give_back()
print(held() - before)
"""


@pytest.mark.skipif(
    not (Path("/proc/self/statm").exists() and memory.give_back()), reason="only glibc keeps and gives back memory"
)
def test_freed_memory_goes_back_to_the_system() -> None:
    found = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    at_first, later = map(float, found.stdout.split())
    assert at_first > 250  # so there was something to give back
    assert later < 50
