"""The machine's queue: one line for all, edited by real processes at the same time, and a lock that dies with its
holder."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from engine import queue
from engine.home import PROJECT, Home


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "lab")


def line(home: Home) -> list[str]:
    return [entry.sweep_id for entry in queue.read_queue(home).entries]


def next_one(home: Home) -> list[str]:
    """Who may measure now: at most one, whatever else is true."""
    now = queue.read_queue(home)
    return [entry.sweep_id for entry in now.entries if queue.is_next(now, entry.sweep_id)]


def set_state(home: Home, sweep_id: str, state: queue.State) -> None:
    with queue.editing(home) as now:
        entry = now.find(sweep_id)
        assert entry
        entry.state = state


def fill(home: Home, *sweep_ids: str) -> None:
    for sweep_id in sweep_ids:
        queue.enqueue(home, sweep_id)


def start(code: str, *arguments: str) -> subprocess.Popen[str]:
    code = "import sys\nfrom pathlib import Path\nfrom engine import queue\nfrom engine.home import Home\n" + code
    return subprocess.Popen([sys.executable, "-c", code, *arguments], cwd=PROJECT, text=True, stdin=subprocess.PIPE,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE)


# -- order, pause, whose turn ------------------------------------------------------------------------------------------


def test_queue_nobody_has_used_is_empty(home: Home) -> None:
    assert queue.read_queue(home) == queue.Queue()
    assert next_one(home) == []
    assert not home.root.exists(), "looking writes nothing"


def test_sweeps_stand_in_the_order_they_came(home: Home) -> None:
    fill(home, "a", "b", "c", "a")
    assert line(home) == ["a", "b", "c"], "a sweep stands in line once"
    assert next_one(home) == ["a"]
    queue.leave(home, "a")
    assert line(home) == ["b", "c"]
    assert next_one(home) == ["b"]
    queue.leave(home, "nobody")
    assert line(home) == ["b", "c"]


@pytest.mark.parametrize(("who", "position", "expected"), [
    ("c", 0, "cab"), ("a", 1, "bac"), ("a", 2, "bca"), ("a", 99, "bca"), ("b", 1, "abc"), ("nobody", 0, "abc")])
def test_sweep_is_moved_to_a_place_in_line(home: Home, who: str, position: int, expected: str) -> None:
    fill(home, "a", "b", "c")
    queue.move(home, who, position)
    assert line(home) == list(expected)
    assert next_one(home) == [expected[0]]


def test_moving_keeps_what_else_is_known(home: Home) -> None:
    fill(home, "a", "b")
    queue.pause(home, "b")
    queue.move(home, "b", 0)
    assert queue.read_queue(home).entries == [queue.Entry("b", paused=True), queue.Entry("a")]


def test_paused_sweep_lets_the_others_pass(home: Home) -> None:
    fill(home, "a", "b")
    queue.pause(home, "a")
    assert queue.is_paused(queue.read_queue(home), "a")
    assert not queue.is_paused(queue.read_queue(home), "b")
    assert next_one(home) == ["b"]
    queue.pause(home, "b")
    assert next_one(home) == []
    queue.pause(home, "a", paused=False)
    assert next_one(home) == ["a"]
    assert line(home) == ["a", "b"], "it has kept its place"


def test_paused_queue_stops_everyone_and_remembers_who_was_paused(home: Home) -> None:
    fill(home, "a", "b")
    queue.pause(home, "a")
    queue.pause(home, None)
    assert next_one(home) == []
    assert queue.is_paused(queue.read_queue(home), "b")
    queue.enqueue(home, "c")
    assert next_one(home) == []
    queue.pause(home, None, paused=False)
    assert next_one(home) == ["b"]
    assert queue.is_paused(queue.read_queue(home), "a")


def test_nobody_is_next_while_someone_measures(home: Home) -> None:
    fill(home, "a", "b", "c")
    set_state(home, "b", "measuring")
    queue.move(home, "c", 0)
    assert next_one(home) == []
    queue.leave(home, "b")
    assert next_one(home) == ["c"]


def test_measuring_sweep_that_was_paused_gets_its_turn_back_after_the_one_it_let_pass(home: Home) -> None:
    fill(home, "a", "b")
    set_state(home, "a", "measuring")
    queue.pause(home, "a")
    set_state(home, "a", "waiting")
    assert next_one(home) == ["b"]
    set_state(home, "b", "measuring")
    queue.pause(home, "a", paused=False)
    assert "a" not in next_one(home)
    queue.leave(home, "b")
    assert next_one(home) == ["a"]


def test_sweep_that_is_not_in_line_is_never_next(home: Home) -> None:
    fill(home, "a")
    now = queue.read_queue(home)
    assert not queue.is_next(now, "stranger")
    assert not queue.is_paused(now, "stranger")


def test_edit_that_fails_changes_nothing(home: Home) -> None:
    fill(home, "a", "b")

    def fail() -> None:
        with queue.editing(home) as now:
            now.entries.clear()
            raise RuntimeError("half-way")

    with pytest.raises(RuntimeError):
        fail()
    assert line(home) == ["a", "b"]
    queue.enqueue(home, "c")
    assert line(home) == ["a", "b", "c"], "and the next edit is not locked out"


# -- several processes -------------------------------------------------------------------------------------------------


def test_processes_that_edit_at_once_lose_nothing(home: Home) -> None:
    """Three processes enter forty sweeps each, take every second one out again and pause every fifth."""
    code = ("home = Home(Path(sys.argv[1]))\nprint('ready', flush=True)\nsys.stdin.readline()\n"
            "for number in range(40):\n"
            "    sweep_id = f'{sys.argv[2]}-{number:02d}'\n"
            "    queue.enqueue(home, sweep_id)\n"
            "    assert queue.read_queue(home).find(sweep_id)\n"
            "    if number % 2:\n        queue.leave(home, sweep_id)\n"
            "    if number % 5 == 0:\n        queue.pause(home, sweep_id)\n")
    editors = [start(code, str(home.root), name) for name in "xyz"]
    for editor in editors:
        assert editor.stdout
        assert editor.stdout.readline() == "ready\n"
    for editor in editors:
        assert editor.stdin
        editor.stdin.write("go\n")
        editor.stdin.flush()
    for editor in editors:
        _, err = editor.communicate(timeout=60)
        assert editor.returncode == 0, err
    entries = queue.read_queue(home).entries
    assert sorted(entry.sweep_id for entry in entries) == [f"{n}-{i:02d}" for n in "xyz" for i in range(0, 40, 2)]
    assert {entry.sweep_id[2:] for entry in entries if entry.paused} == {"00", "10", "20", "30"}
    for name in "xyz":
        mine = [entry.sweep_id for entry in entries if entry.sweep_id.startswith(name)]
        assert mine == sorted(mine), "each one's sweeps are in the order it entered them"
    assert not list(home.root.glob("*.part"))


def test_editor_killed_while_it_has_the_queue_locks_nobody_out(home: Home) -> None:
    fill(home, "a")
    editor = start("with queue.editing(Home(Path(sys.argv[1]))) as now:\n    now.entries.clear()\n"
                   "    print('in it', flush=True)\n    sys.stdin.readline()\n", str(home.root))
    assert editor.stdout
    assert editor.stdout.readline() == "in it\n"
    editor.kill()
    editor.communicate()
    queue.enqueue(home, "b")
    assert line(home) == ["a", "b"]


# -- the machine's lock ------------------------------------------------------------------------------------------------

HOLDER = ("lock = queue.MachineLock(Path(sys.argv[1]))\n"
          "print(lock.try_to_take(), flush=True)\nsys.stdin.readline()\n")


def test_one_at_a_time_measures_on_this_machine(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "machine.lock"
    mine, other = queue.MachineLock(path), queue.MachineLock(path)
    assert mine.try_to_take()
    assert mine.try_to_take(), "asking again is no second taking"
    assert not other.try_to_take()
    stranger = start(HOLDER, str(path))
    assert stranger.communicate("\n", timeout=60)[0] == "False\n"
    mine.release()
    mine.release()
    assert other.try_to_take()
    assert not mine.try_to_take()
    other.release()


def test_lock_is_free_again_when_its_holder_is_killed(tmp_path: Path) -> None:
    """Also while a child of the holder lives on: what it started must not keep the machine."""
    path = tmp_path / "machine.lock"
    holder = start("import subprocess\nlock = queue.MachineLock(Path(sys.argv[1]))\ntaken = lock.try_to_take()\n"
                   "child = subprocess.Popen(['sleep', '60'], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,\n"
                   "                         stderr=subprocess.DEVNULL)\n"
                   "print(taken, child.pid, flush=True)\nsys.stdin.readline()\n", str(path))
    assert holder.stdout
    taken, child = holder.stdout.readline().split()
    try:
        assert taken == "True"
        mine = queue.MachineLock(path)
        assert not mine.try_to_take()
        holder.kill()
        holder.communicate()
        assert mine.try_to_take()
        mine.release()
    finally:
        os.kill(int(child), 9)


def test_lock_is_where_the_environment_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PHASELAB_MACHINE_LOCK", str(tmp_path / "here.lock"))
    lock = queue.MachineLock()
    assert lock.try_to_take()
    assert (tmp_path / "here.lock").exists()
    lock.release()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as a second user")
def test_two_users_share_the_machine() -> None:
    """The second one waits; it does not fail because the lock file belongs to the first."""
    code = ("import os, signal\nos.umask(0o022)\npath = Path(sys.argv[1])\nfirst = queue.MachineLock(path)\n"
            "assert first.try_to_take()\n"
            "def as_another_user():\n"
            "    child = os.fork()\n"
            "    if not child:\n"
            "        os.setgid(65534), os.setuid(65534)\n"
            "        try:\n            os._exit(queue.MachineLock(path).try_to_take())\n"
            "        except BaseException:\n            os._exit(9)\n"
            "    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])\n"
            "while_held = as_another_user()\nfirst.release()\nprint(while_held, as_another_user())\n")
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o1777)
        out, err = start(code, str(Path(folder) / "machine.lock")).communicate(timeout=60)
    assert out == "0 1\n", err


# -- a damaged queue ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"entries":[{"sweep_id":"a","colour":1}]}',
                                     b'{"entries":[{"sweep_id":"\xff"}]}', bytes(100)])
def test_lab_goes_on_with_a_damaged_queue(home: Home, content: bytes) -> None:
    home.root.mkdir(parents=True)
    home.queue.write_bytes(content)
    assert line(home) == []
    queue.enqueue(home, "a")
    assert line(home) == ["a"]
