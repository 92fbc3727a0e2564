"""What tests share with the benchmarks, which are scripts beside the package."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "benchmarks"))

from head_links import link_shares

__all__ = ["link_shares"]
