"""Starting, resuming, extending and cancelling sweeps: what the browser and the command line do alike."""

from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime
from typing import Any

from engine.home import PROJECT, Home, SweepFolder, whole_paths
from engine.interrupted import close_if_dead, next_session
from engine.journal import Session, read_blocks
from engine.params import InputError, suggestion
from engine.registry import find
from engine.spec import SweepSpec, make_cells
from engine.sweep_state import IMPORTED, SweepState, process_alive, read_process, read_state

START_LIMIT_S = 30.0


def launch(home: Home, spec: SweepSpec) -> str:
    """Start a new sweep; returns its id once its process has taken over."""
    _check_cells(spec, home)
    sweep_id = f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"
    folder = home.sweep(sweep_id)
    folder.runs.mkdir(parents=True)
    _start(home, folder, "launch", _with_order_seed(spec), retry_failed=False)
    return sweep_id


def resume(home: Home, sweep_id: str, retry_failed: bool = False) -> str:
    """Measure what is missing; with `retry_failed` also what failed, ran out of time or memory, or was skipped."""
    folder, state = _at_rest(home, sweep_id)
    _start(home, folder, "resume", state.specs[-1], retry_failed)
    return folder.sweep_id


def extend(home: Home, sweep_id: str, spec: SweepSpec) -> str:
    """Add the cells and repeats of another specification; cells that are there are not measured again."""
    _check_cells(spec, home)
    folder, state = _at_rest(home, sweep_id)
    if spec.experiment != state.specs[0]["experiment"]:
        raise InputError(f"experiment={spec.experiment}: sweep {folder.sweep_id} measures "
                         f"{state.specs[0]['experiment']}; launch a sweep of its own instead")
    _start(home, folder, "extend", _with_order_seed(spec), retry_failed=False)
    return folder.sweep_id


def cancel(home: Home, sweep_id: str) -> str:
    """Ask a sweep to end; what it has measured is kept. Returns the id."""
    folder = find_sweep(home, sweep_id)
    process = read_process(folder)
    if not process or not process_alive(folder):
        close_if_dead(home, folder)
        raise InputError(f"sweep {folder.sweep_id} is not running; there is nothing to cancel")
    os.kill(process["pid"], signal.SIGTERM)
    return folder.sweep_id


def find_sweep(home: Home, text: str) -> SweepFolder:
    """A sweep by its id or by a beginning that only one id has; `last` is the newest."""
    ids = home.sweep_ids()
    if not ids:
        raise InputError(f"sweep {text}: this lab has no sweeps yet; start one with `python lab.py sweep FILE.yaml`")
    if text == "last":
        return home.sweep(ids[-1])
    found = [sweep_id for sweep_id in ids if sweep_id == text] or [s for s in ids if text and s.startswith(text)]
    if len(found) == 1:
        return home.sweep(found[0])
    if found:
        raise InputError(f"sweep {text}: {len(found)} sweeps begin like this; give more of the id")
    raise InputError(f"sweep {text}: no such sweep{suggestion(text, ids)} (`python lab.py sweeps` lists them)")


def wait_until_ended(folder: SweepFolder, seconds: float) -> bool:
    """Whether the sweep's process is gone within so many seconds."""
    until = time.monotonic() + seconds
    while process_alive(folder):
        if time.monotonic() > until:
            return False
        time.sleep(0.05)
    return True


def _at_rest(home: Home, sweep_id: str) -> tuple[SweepFolder, SweepState]:
    folder = find_sweep(home, sweep_id)
    process = read_process(folder)
    if process and process_alive(folder):
        raise InputError(f"sweep {folder.sweep_id} is still being measured by process {process['pid']}; wait for it or "
                         "cancel it first")
    close_if_dead(home, folder)
    state = read_state(folder)
    if not state.specs:
        raise InputError(f"sweep {folder.sweep_id} never started (see {folder.log.name} in its folder); launch it anew")
    if state.source == IMPORTED or folder.bundle.exists():
        raise InputError(f"sweep {folder.sweep_id} was imported; runs of this machine do not go into it: launch a "
                         "sweep of its own")
    return folder, state


def _check_cells(spec: SweepSpec, home: Home) -> None:
    """Every cell is valid, and what it needs from this machine's disk is there: nothing is written before."""
    experiment = find(spec.experiment)
    cells = make_cells(spec)
    if experiment.check:
        experiment.check([cell.params for cell in cells], home.cache)


def _with_order_seed(spec: SweepSpec) -> dict[str, Any]:
    """The specification as it is kept: a random order is drawn once and then written down."""
    content = spec.model_dump(mode="json")
    if spec.order == "random" and not spec.order_seed:
        content["order_seed"] = secrets.randbelow(2**31 - 1) + 1
    return content


def _start(home: Home, folder: SweepFolder, action: str, spec: dict[str, Any], retry_failed: bool) -> None:
    session = _claim_session(folder, {"action": action, "spec": spec, "retry_failed": retry_failed})
    # Started by -c and not -m: multiprocessing would import a -m main module again in every run.
    code = "import sys; from engine.sweep import main; main(sys.argv[1], sys.argv[2], int(sys.argv[3]))"
    environment = {**os.environ, **whole_paths(), "PYTHONPATH": os.pathsep.join([str(PROJECT), *_python_path()])}
    with folder.log.open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-c", code, str(home.root), folder.sweep_id, str(session)], stdin=subprocess.DEVNULL,
            stdout=log, stderr=log, cwd=PROJECT, env=environment, start_new_session=True)
    until = time.monotonic() + START_LIMIT_S
    while not _session_began(folder, session, process.pid):
        if process.poll() is not None or time.monotonic() > until:
            raise InputError(f"sweep {folder.sweep_id} could not start; its log {folder.log} says why")
        time.sleep(0.02)


def _claim_session(folder: SweepFolder, request: dict[str, Any]) -> int:
    """A session number that nobody else has: two commands at once are two sessions, one after the other."""
    while True:
        session = next_session(folder)
        try:
            with folder.request(session).open("x") as file:
                json.dump(request, file, indent=1)
            return session
        except FileExistsError:
            continue


def _session_began(folder: SweepFolder, session: int, pid: int) -> bool:
    """Its journal begins with the process that was started here."""
    try:
        records = [record for block in read_blocks(folder.session_journal(session)) for record in block.records]
    except FileNotFoundError:
        return False
    return any(isinstance(record, Session) and record.pid == pid for record in records[:1])


def _python_path() -> list[str]:
    return [part for part in os.environ.get("PYTHONPATH", "").split(os.pathsep) if part]
