"""Processes that train together: started by torch's own launcher, in the run's process group, ended with the run.

The launcher is torchrun's, called from the run process. Its ranks are forked from there, so they have torch loaded and
share the run's pipe to its sweep: whatever ends the run ends them. The rendezvous takes whichever port is free.
"""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

from engine.files import write_json
from engine.machine import oom_kill_count
from engine.params import InputError
from engine.recorder import Skip
from engine.run import Cancelled, classify, log_to, raise_cancelled

LOOK_EVERY_S = 0.25
"""Between two looks of the launcher at its ranks: it must not compute beside what is measured."""
SHUTDOWN_S = 5
"""What the other ranks get to end by themselves when one has failed."""
LOG_TOLD_BYTES = 8_000
_LOST_OTHERS = re.compile(r"connection (closed|reset|refused)|broken pipe|socket|read error|write error|timed? ?out|"
                          r"remote|peer", re.IGNORECASE)


class RankFailed(RuntimeError):
    """A rank that ended in another way than by returning."""


class RankEnd(NamedTuple):
    """How a rank says it ended. `at` is perf_counter: one monotonic clock per machine."""

    rank: int
    status: str
    reason: str
    at: float


def launch_ranks(work: Callable[[int], Any], count: int, folder: Path, name: str) -> dict[int, Any]:
    """Call `work(rank)` in `count` processes and return what each returned.

    Rank 0 writes to the log of this process, every other one to a log of its own in `folder`. When one fails the others
    are ended, and its error is raised here: MemoryError for a rank that was out of memory, else RankFailed.
    """
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    folder.mkdir(parents=True)
    # The launcher asks for accelerators before it forks; asked through NVML, CUDA stays untouched and can be forked.
    os.environ["PYTORCH_NVML_BASED_CUDA_CHECK"] = "1"
    kills_before = oom_kill_count()
    config = LaunchConfig(
        min_nodes=1, max_nodes=1, nproc_per_node=count, run_id=name, max_restarts=0, start_method="fork",
        rdzv_backend="c10d", rdzv_endpoint="127.0.0.1:0", local_addr="127.0.0.1", monitor_interval=LOOK_EVERY_S,
        shutdown_timeout=SHUTDOWN_S,
        signals_to_handle="SIGHUP")  # SIGTERM is the run's own: a cancel
    sys.stdout.flush()
    sys.stderr.flush()
    try:
        answers: dict[int, Any] = elastic_launch(config, _in_rank)(work, folder, os.getpid())
    except ChildFailedError as error:
        exits = {rank: failure.exitcode for rank, failure in error.failures.items()}
        raise _explain(exits, count, folder, kills_before) from None
    return answers


def rank_log(folder: Path, rank: int) -> Path:
    return folder / f"rank-{rank}.log"


def end_with_rank(worker: int) -> None:
    """First in each loader worker of a rank. The worker has copies of the rank's pipes and sockets: while it lives, a
    dead rank looks alive to the launcher and to its partners, and it would look for its parent every 5 s only."""
    _end_with_parent()


def _end_with_parent() -> None:
    from torch.multiprocessing import _prctl_pr_set_pdeathsig

    _prctl_pr_set_pdeathsig(signal.SIGKILL)


def _in_rank(work: Callable[[int], Any], folder: Path, run_pid: int) -> Any:
    """The process of one rank. SIGTERM raises Cancelled in it, as in the run: what it has measured reaches the journal
    when another rank has failed or the run is cancelled. The kernel ends it with the run's process, also when that and
    the sweep's are killed at once and nobody is left to end the group."""
    import torch.distributed

    _end_with_parent()
    if os.getppid() != run_pid:  # it went before the kernel was asked
        os._exit(1)
    rank = int(os.environ["RANK"])
    if rank > 0:
        log_to(rank_log(folder, rank))
    try:
        signal.signal(signal.SIGTERM, raise_cancelled)
        answer = work(rank)
        if torch.distributed.is_initialized():
            torch.distributed.destroy_process_group()
        return answer
    except Cancelled:
        _say(folder, RankEnd(rank, "ended", "ended with the others", perf_counter()))
    except Skip as reason:
        _say(folder, RankEnd(rank, "skipped", str(reason), perf_counter()))
    except InputError as error:
        _say(folder, RankEnd(rank, "refused", str(error), perf_counter()))
    except Exception as error:
        at = perf_counter()
        traceback.print_exc()
        _say(folder, RankEnd(rank, *classify(error), at))
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
    # No farewell to the other ranks, and no finalisers that would wait for them.
    os._exit(1)


def _say(folder: Path, end: RankEnd) -> None:
    write_json(folder / f"rank-{end.rank}.json", end._asdict())


def _explain(exits: dict[int, int], count: int, folder: Path, kills_before: int | None) -> Exception:
    """The error of the rank that failed first; the others lost their partner and say only that."""
    said = {rank: end for rank in range(count) if (end := _read_end(folder, rank)) is not None}
    errors = sorted((end for end in said.values() if end.status != "ended"), key=lambda end: end.at)
    silent = [rank for rank in range(count) if rank not in said]
    killed = next((rank for rank, code in exits.items() if code < 0 and rank in silent), None)
    if killed is None and silent and (not errors or _LOST_OTHERS.search(errors[0].reason)):
        killed = silent[0]
    if killed is not None:
        return _explain_kill(killed, exits.get(killed), folder, kills_before)
    first = errors[0] if errors else next(iter(said.values()))
    _tell_log(folder, first.rank)
    match first.status:
        case "skipped":
            return Skip(first.reason)
        case "refused":
            return InputError(first.reason)
        case "oom":
            return MemoryError(f"rank {first.rank} of {count}: {first.reason}")
    return RankFailed(f"rank {first.rank} of {count}: {first.reason}")


def _explain_kill(rank: int, code: int | None, folder: Path, kills_before: int | None) -> Exception:
    _tell_log(folder, rank)
    kills = oom_kill_count()
    if None not in (kills, kills_before) and kills > kills_before:  # type: ignore[operator]
        return MemoryError(f"rank {rank} was killed by the kernel for memory")
    how = f"ended by {signal.Signals(-code).name}" if code is not None and code < 0 else "ended without a word"
    return RankFailed(f"rank {rank} was {how}; the other ranks were ended with it")


def _read_end(folder: Path, rank: int) -> RankEnd | None:
    try:
        return RankEnd(**json.loads((folder / f"rank-{rank}.json").read_text()))
    except (OSError, ValueError, TypeError):
        return None


def _tell_log(folder: Path, rank: int) -> None:
    """The end of a failed rank's log, in the run's own; rank 0 has written there all the time."""
    if rank > 0 and rank_log(folder, rank).exists():
        text = rank_log(folder, rank).read_bytes()[-LOG_TOLD_BYTES:].decode(errors="replace").strip()
        print(f"--- the log of rank {rank} ends so:\n{text or '(it wrote nothing)'}\n---", file=sys.stderr, flush=True)
