"""When does a run enter its experiment? Does nothing else; benchmarks/bench_start.py starts it."""

from __future__ import annotations

import sys
from time import perf_counter
from typing import TYPE_CHECKING

from engine.params import Params as BaseParams

if TYPE_CHECKING:
    from engine.recorder import Recorder


class Params(BaseParams):
    pass


def run(params: Params, recorder: Recorder) -> None:
    recorder.metric("entered_s", perf_counter() - recorder.origin, "s")
    assert "torchvision" in sys.modules, "the forkserver did not preload torch"
