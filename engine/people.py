"""What people do to sweeps and runs (tags, notes, archive, delete), journaled like everything else."""

from __future__ import annotations

import os
import secrets

from engine.home import Home
from engine.journal import Annotation, JournalWriter
from engine.moment import utc_now_exact

FIELDS = ("tag", "untag", "note", "archive", "unarchive", "delete", "restore", "erase")


def annotate(home: Home, targets: list[str], field: str, value: str = "") -> None:
    """Write it down; the store takes it from there. One small file per act: no two writers share one."""
    assert field in FIELDS, f"{field} is not something people do; {', '.join(FIELDS)}"
    moment = utc_now_exact()
    journal = JournalWriter(home.people / f"{moment.replace(':', '')}-{os.getpid()}-{secrets.token_hex(2)}.jsonl")
    for target in targets:
        journal.write(Annotation(target, field, value[:20_000], moment))
    journal.close()
