"""The noise check with its real process: what it keeps, when it is refused, and that it leaves nothing behind."""

from __future__ import annotations

import os

import msgspec
import psutil
import pytest
from driven_lab import Lab

from engine import queue
from engine.machine import cpu_allowance
from engine.noise_check import LEAST_PIECES, kept_at, read_last, run_check
from engine.params import InputError

SHORT_S = 0.2


def test_a_check_is_measured_and_kept(lab: Lab) -> None:
    shares: list[float] = []
    check = run_check(lab.home, SHORT_S, shares.append)
    assert read_last(lab.home) == check
    processes = max(1, int(cpu_allowance().cores))
    assert [len(part.tracks) for part in check.parts] == ([1, processes] if processes > 1 else [1])
    for part in check.parts:
        for track in part.tracks:
            assert len(track) >= LEAST_PIECES and min(track) > 0
            # Pieces lie within the part, on the clock of the process that worked (each is rounded to the nanosecond).
            assert sum(track) <= part.seconds + 1e-9 * len(track)
    assert check.steal_share is None or 0 <= check.steal_share <= 1
    assert check.others_cpu_cores is not None and check.others_cpu_cores >= 0
    assert shares == sorted(shares) and shares[-1] == 1
    assert [file.name for file in lab.home.root.iterdir()] == ["noise-check.json"], "nothing half-written is left"


def test_the_app_process_does_not_do_the_work(lab: Lab) -> None:
    before = os.times()
    run_check(lab.home, SHORT_S)
    after = os.times()
    assert after.user - before.user < after.children_user - before.children_user


def test_refused_while_a_sweep_is_measured(lab: Lab) -> None:
    queue.enqueue(lab.home, "20260101-000000-aaaa")
    run_check(lab.home, SHORT_S)
    with queue.editing(lab.home) as line:
        line.entries[0].state = "measuring"
    kept = kept_at(lab.home).read_bytes()
    with pytest.raises(InputError, match="20260101-000000-aaaa is being measured"):
        run_check(lab.home, SHORT_S)
    assert kept_at(lab.home).read_bytes() == kept


def test_refused_while_another_lab_measures(lab: Lab) -> None:
    lock = queue.MachineLock()
    assert lock.try_to_take()
    with pytest.raises(InputError, match="is being measured now"):
        run_check(lab.home, SHORT_S)
    assert read_last(lab.home) is None
    lock.release()
    assert run_check(lab.home, SHORT_S)


def test_no_sweep_starts_beside_a_check_and_a_check_that_is_given_up_ends(lab: Lab) -> None:
    """A page that is closed raises in the middle of the check: its processes are gone and the lock is free."""
    seen: list[bool] = []
    children: list[psutil.Process] = []
    others = psutil.Process().children(recursive=True)  # of earlier tests

    def give_up(share: float) -> None:
        found = [child for child in psutil.Process().children(recursive=True) if child not in others]
        if len(found) < 2:  # the check's process, and the one that works
            return
        children.extend(found)
        lock = queue.MachineLock()
        seen.append(lock.try_to_take())
        lock.release()
        raise ConnectionError("the page is gone")

    with pytest.raises(ConnectionError):
        run_check(lab.home, 8.0, give_up)
    assert seen == [False]
    gone, alive = psutil.wait_procs(children, timeout=120)
    assert len(gone) >= 2 and not alive
    lock = queue.MachineLock()
    assert lock.try_to_take()
    lock.release()


@pytest.mark.parametrize("seconds", [0, -1, 61, float("nan")])
def test_wrong_seconds(lab: Lab, seconds: float) -> None:
    with pytest.raises(InputError, match="seconds="):
        run_check(lab.home, seconds)


@pytest.mark.parametrize("content", [b"", b"{}", b"\xff\xfe", b'{"form": 1', b"[1, 2]"])
def test_a_damaged_file_counts_as_no_check(lab: Lab, content: bytes) -> None:
    lab.home.root.mkdir(parents=True)
    kept_at(lab.home).write_bytes(content)
    assert read_last(lab.home) is None


def test_times_that_cannot_be_are_not_read(lab: Lab) -> None:
    check = run_check(lab.home, SHORT_S)
    for track in ([0.0] * 30, [-1.0] * 30, [0.004] * 3):
        wrong = msgspec.structs.replace(check, parts=[msgspec.structs.replace(check.parts[0], tracks=[track])])
        kept_at(lab.home).write_bytes(msgspec.json.encode(wrong))
        assert read_last(lab.home) is None


def test_a_folder_that_cannot_be_written_is_a_sentence(lab: Lab) -> None:
    lab.home.root.mkdir(parents=True)
    kept_at(lab.home).mkdir()
    assert read_last(lab.home) is None
    with pytest.raises(InputError, match=r"the noise check failed: .*noise-check\.json"):
        run_check(lab.home, SHORT_S)


def test_the_command(lab: Lab) -> None:
    found = lab.json("noise", "--seconds", "0.2")
    assert found["verdict"] in ("quiet", "usable with repeats", "noisy")
    assert set(found["shown_difference"]) == {"3", "5", "10"}
    assert len(found["parts"]) == len(found["check"]["parts"])
    code, out, _ = lab.call("noise", "--seconds", "0.2")
    assert code == 0 and out.partition(":")[0] in ("quiet", "usable with repeats", "noisy")
    lock = queue.MachineLock()
    assert lock.try_to_take()
    assert "is being measured now" in lab.json("noise", expect=2)["error"]
    lock.release()
