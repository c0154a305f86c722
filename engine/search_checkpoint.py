"""Scores that a search has finished, on disk at once: when it is killed and resumed they are not computed again.

One file per run, below the sweep's folder; a repeat of the same cell measures anew. Each line carries a key of
everything that determines the score, so a line is used only for the very same question.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path

from engine.search_executor import Scored


class Checkpoint:
    """`question` says what else than its blocks and the number of items determines a model's score."""

    def __init__(self, path: Path, question: str) -> None:
        self._path, self._question = path, question
        self._known: dict[str, Scored] = {}
        path.parent.mkdir(parents=True, exist_ok=True)
        for line in path.read_text().splitlines() if path.exists() else []:
            try:
                key, score, top1 = json.loads(line)
                self._known[str(key)] = Scored(float(score), float(top1))
            except (ValueError, TypeError):
                continue  # the line that was being written when the process was killed
        self._file = path.open("a")
        self._file.write("\n")  # what follows does not join a torn line

    def _key(self, blocks: Sequence[str], items: int) -> str:
        return hashlib.sha256("\n".join([self._question, str(items), *blocks]).encode()).hexdigest()

    def find(self, blocks: Sequence[str], items: int) -> Scored | None:
        """What an earlier attempt found for these blocks on the first so many items."""
        return self._known.get(self._key(blocks, items))

    def add(self, blocks: Sequence[str], items: int, scored: Scored) -> None:
        """In the kernel's hands when this returns: a killed process does not lose it."""
        self._file.write(json.dumps([self._key(blocks, items), scored.score, scored.top1]) + "\n")
        self._file.flush()

    def close(self) -> None:
        self._file.close()

    def remove(self) -> None:
        """The run has its result: nothing is left to resume."""
        self.close()
        self._path.unlink()
