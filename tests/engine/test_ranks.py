"""Processes that train together: what they return, and whose fault it is when one of them does not."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from engine.params import InputError
from engine.ranks import RankFailed, launch_ranks, rank_log
from engine.recorder import Skip
from engine.tries import Tried, try_alone


def launch(tmp_path: Path, work: Callable[[int], Any]) -> Tried:
    """In a process of its own: the launcher changes signal handlers and the environment."""
    def told() -> Any:
        try:
            return launch_ranks(work, 2, tmp_path / "ranks", "test")
        except (RankFailed, MemoryError, InputError, Skip) as error:
            return type(error).__name__, str(error)

    return try_alone(told, 120, lambda: None)


def meet() -> None:
    """Wait for the other rank, as every training step does."""
    import torch.distributed

    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    torch.distributed.init_process_group("gloo")
    torch.distributed.barrier()


def test_ranks_meet_though_the_usual_port_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        monkeypatch.setenv("MASTER_PORT", str(taken.getsockname()[1]))

        def work(rank: int) -> str:
            meet()
            return f"rank {rank}"

        assert launch(tmp_path, work).answer == {0: "rank 0", 1: "rank 1"}


def test_the_rank_that_failed_is_named_and_not_the_one_that_lost_it(tmp_path: Path,
                                                                   capfd: pytest.CaptureFixture[str]) -> None:
    def work(rank: int) -> None:
        import torch.distributed

        meet()
        if rank == 1:
            os.write(1, b"what rank 1 has to say")  # pytest has its own sys.stdout
            raise ValueError("no such thing")
        torch.distributed.barrier()

    kind, reason = launch(tmp_path, work).answer
    assert (kind, reason) == ("RankFailed", "rank 1 of 2: ValueError: no such thing")
    assert "what rank 1 has to say" in rank_log(tmp_path / "ranks", 1).read_text()
    assert "what rank 1 has to say" in capfd.readouterr().err


def test_out_of_memory_in_a_rank_is_out_of_memory(tmp_path: Path) -> None:
    def work(rank: int) -> None:
        import torch

        meet()
        if rank == 1:
            torch.empty(2**55)
        torch.distributed.barrier()

    kind, reason = launch(tmp_path, work).answer
    assert kind == "MemoryError" and reason.startswith("rank 1 of 2: RuntimeError")


def test_a_killed_rank_is_a_failure_with_its_signal(tmp_path: Path) -> None:
    def work(rank: int) -> None:
        import torch.distributed

        meet()
        if rank == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        torch.distributed.barrier()

    kind, reason = launch(tmp_path, work).answer
    assert kind == "RankFailed" and reason.startswith("rank 1 was ended")


@pytest.mark.parametrize(("error", "kind"), [(Skip("not here"), "Skip"), (InputError("seed=9: no"), "InputError")])
def test_what_a_rank_refuses_is_refused(tmp_path: Path, error: Exception, kind: str) -> None:
    def work(rank: int) -> None:
        raise error

    assert launch(tmp_path, work).answer == (kind, str(error))
