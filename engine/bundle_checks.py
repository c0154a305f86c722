"""What a sweep must be like to travel in a bundle, checked where it leaves and where it arrives: whole journals that
speak of this sweep alone, in files that belong to one."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from engine.bundle_file import is_inside
from engine.environment import environment_id_of
from engine.home import SweepFolder
from engine.journal import (
    Annotation,
    BoardAct,
    EnvironmentSeen,
    JournalDamage,
    RunStart,
    Session,
    list_journals,
    read_records,
)
from engine.params import InputError
from engine.spec import SweepSpec
from engine.sweep_state import read_state


def list_all_journals(folder: SweepFolder) -> list[Path]:
    """Of the sweep and of its runs, every attempt."""
    return [*list_journals(folder.path, "session-"), *list_journals(folder.runs)]


def check_sweep(folder: SweepFolder, source: str, experiment: str) -> None:
    """Every block of every journal is whole, and every record is about this sweep."""
    try:
        if not list_journals(folder.path, "session-"):
            raise InputError(f"{source}: has no journal of a sweep; it cannot be a bundle")
        for path in list_all_journals(folder):
            for record in read_records(path):
                _check_record(record, folder.sweep_id, source, experiment)
    except JournalDamage as damage:
        name = damage.path.relative_to(folder.path)
        raise InputError(f"{source}: {name} is damaged at byte {damage.byte:,} ({damage.reason}); a bundle is "
                         "exchanged whole or not at all") from None
    state = read_state(folder)
    if not state.specs or state.open:
        raise InputError(f"{source}: its journals do not tell how the sweep began and ended; it cannot be a bundle")


def _check_record(record: Any, sweep_id: str, source: str, experiment: str) -> None:
    of_sweep, of_run = getattr(record, "sweep_id", ""), getattr(record, "run_id", "")
    if (of_sweep and of_sweep != sweep_id) or (of_run and not is_of(of_run, sweep_id)) \
            or isinstance(record, Annotation | BoardAct):
        raise InputError(f"{source}: its journals speak of another sweep; export it again")
    match record:
        case RunStart() if record.experiment != experiment:
            raise InputError(f"{source}: its runs are of {record.experiment[:80]}, not {experiment}; export it again")
        case Session():
            try:
                SweepSpec.model_validate(record.spec)
            except ValueError as error:
                raise InputError(f"{source}: its specification is not valid here ({str(error).splitlines()[0]}); "
                                 "update the lab that is older") from None
        case EnvironmentSeen() if environment_id_of(record.facts) != record.environment_id:
            raise InputError(f"{source}: environment {record.environment_id[:40]} is not the fingerprint of its facts; "
                             "export it again")


def is_of(target: str, sweep_id: str) -> bool:
    return target == sweep_id or bool(re.fullmatch(re.escape(sweep_id) + r"-[0-9a-f]{1,40}-\d{1,9}", target))


def is_journal(path: str) -> bool:
    """One that the store reads; a rank's own journal is a file of its run."""
    return bool(re.fullmatch(r"(session-\d+|runs/[^/]+)\.jsonl", path))


def belongs(path: str, sweep_id: str) -> bool:
    """Whether a sweep's folder has files of this name that may travel: not locks, requests or process ids."""
    run = rf"runs/{re.escape(sweep_id)}-[0-9a-f]{{1,40}}-\d{{1,9}}"
    return is_inside(path) and bool(re.fullmatch(
        rf"session-\d{{4,9}}\.jsonl|{run}\.\d{{1,9}}\.(jsonl|log)|{run}\.files/.+", path))
