"""Sweeps whose process is gone without a word: their leftovers are ended and their journals say so, so that nothing
stays "running" for ever."""

from __future__ import annotations

import os

from engine import queue
from engine.executor import end_process_group
from engine.files import try_lock
from engine.home import Home, SweepFolder
from engine.journal import JournalWriter, RunEnd, SessionEnd, list_journals
from engine.moment import utc_now
from engine.sweep_state import process_alive, read_state


def close_interrupted(home: Home, besides: str = "") -> list[str]:
    """Close every sweep whose process died. Returns their ids. A process that ends well takes its file away."""
    closed = []
    waiting = {entry.sweep_id for entry in queue.read_queue(home).entries}
    for sweep_id in sorted(waiting | {s for s in home.sweep_ids() if home.sweep(s).process.exists()}):
        folder = home.sweep(sweep_id)
        if sweep_id != besides and not process_alive(folder) and close_if_dead(home, folder):
            closed.append(sweep_id)
    return closed


def close_if_dead(home: Home, folder: SweepFolder) -> bool:
    """Whoever holds the sweep's lock may write its journal; a living sweep process holds it all its life."""
    if not folder.path.is_dir():
        queue.leave(home, folder.sweep_id)
        return False
    lock = try_lock(folder.lock)
    if lock is None:
        return False
    try:
        state = read_state(folder)
        if state.open and state.sessions:
            journal = JournalWriter(folder.session_journal(next_session(folder)))
            for run in state.runs.values():
                if run.status == "running":
                    if run.pid:
                        end_process_group(run.pid, run.process_started_s)
                    journal.write(RunEnd(run.run_id, utc_now(), "killed", "the sweep process ended during this run"))
            journal.write(SessionEnd(folder.sweep_id, utc_now(), "interrupted", "the sweep process ended unexpectedly"))
            journal.close()
        queue.leave(home, folder.sweep_id)
        folder.process.unlink(missing_ok=True)
        return True
    finally:
        os.close(lock)


def next_session(folder: SweepFolder) -> int:
    numbers = [int(path.stem.partition("-")[2]) for path in list_journals(folder.path, "session-")]
    numbers += [int(path.stem.partition("-")[2]) for path in folder.path.glob("request-*.json")]
    return max(numbers, default=0) + 1
