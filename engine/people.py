"""What people do to sweeps and runs (tags, notes, archive, delete), journaled like everything else."""

from __future__ import annotations

import os
import secrets

from engine import queue
from engine.home import Home
from engine.journal import Annotation, JournalWriter
from engine.moment import utc_now_exact
from engine.params import InputError
from engine.spec import split_tags

FIELDS = ("tag", "untag", "note", "archive", "unarchive", "delete", "restore", "erase")


def delete(home: Home, targets: list[str], field: str = "delete", value: str = "") -> None:
    """Hide sweeps and runs, to be restored or erased. One that is in line could not be watched or cancelled then."""
    line = queue.read_queue(home)
    if waiting := [target for target in targets if line.find(target) or line.find(target.rsplit("-", 2)[0])]:
        raise InputError(f"{waiting[0]}: is being measured or waits for its turn; cancel its sweep first, then delete")
    annotate(home, targets, field, value)


def annotate(home: Home, targets: list[str], field: str, value: str = "") -> None:
    """Write it down; the store takes it from there. One small file per act: no two writers share one."""
    assert field in FIELDS, f"{field} is not something people do; {', '.join(FIELDS)}"
    values = split_tags(value) if field in ("tag", "untag") else [value[:20_000]]
    moment = utc_now_exact()
    journal = JournalWriter(home.people / f"{moment.replace(':', '')}-{os.getpid()}-{secrets.token_hex(2)}.jsonl")
    for target in targets:
        for one in values:
            journal.write(Annotation(target, field, one, moment))
    journal.close()
