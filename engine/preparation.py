"""Work a sweep does once before its runs, each piece in a process of its own: ask torch about itself, prepare data."""

from __future__ import annotations

import traceback
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from engine import registry
from engine.devices import torch_facts
from engine.run import own_group


def answer_torch_facts(link: Connection) -> None:
    own_group(link)
    link.send(torch_facts())


def prepare_in_process(experiment: str, cells: list[dict[str, Any]], cache: Path, link: Connection) -> None:
    """Sends (done, total) as it goes, or one sentence when it cannot be done."""
    own_group(link)
    found = registry.find(experiment)
    assert found.prepare
    try:
        found.prepare([found.Params.model_validate(cell) for cell in cells], cache,
                      lambda done, total: link.send((done, total)))
    except Exception as error:
        traceback.print_exc()
        link.send(str(error) or type(error).__name__)
