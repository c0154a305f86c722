"""What a search has finished, on disk at once: when it is killed and resumed it is not computed again.

Two files per run, below the sweep's folder: scores, and features of models that have no score yet or go on to another
round. A repeat of the same cell measures anew. Each entry carries a key of everything that determines it, so it is used
only for the very same question.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

from engine.search_executor import Scored

if TYPE_CHECKING:
    import torch

FEATURE_BYTES = 4  # kept in single precision, as blocks give them


class _Stretch(NamedTuple):
    """Features of one model on the items from `start` to `stop`: where they are in the file."""

    start: int
    stop: int
    width: int
    at: int


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
        self._features_path = path.with_name("finished_features")
        self._features_path.touch()
        self._features = self._features_path.open("r+b")
        self._kept = _read_stretches(self._features)

    def _key(self, blocks: Sequence[str], items: int | None) -> str:
        """Of a score on so many items; without a number, of features."""
        return hashlib.sha256("\n".join([self._question, str(items), *blocks]).encode()).hexdigest()

    def find(self, blocks: Sequence[str], items: int) -> Scored | None:
        """What an earlier attempt found for these blocks on the first so many items."""
        return self._known.get(self._key(blocks, items))

    def add(self, blocks: Sequence[str], items: int, scored: Scored) -> None:
        """In the kernel's hands when this returns: a killed process does not lose it."""
        self._file.write(json.dumps([self._key(blocks, items), scored.score, scored.top1]) + "\n")
        self._file.flush()

    def keep(self, blocks: Sequence[str], items: range, features: torch.Tensor) -> None:
        """Features of these blocks on these items; as safe from a kill as a score."""
        head = json.dumps([self._key(blocks, None), items.start, items.stop, features.shape[1]])
        self._features.write(f"{head}\n".encode() + features.float().cpu().numpy().tobytes())
        self._features.flush()

    def kept_items(self, blocks: Sequence[str]) -> int:
        """Of how many first items an earlier attempt has kept the features."""
        until = 0
        for stretch in self._kept.get(self._key(blocks, None), []):
            if stretch.start <= until:
                until = max(until, stretch.stop)
        return until

    def features(self, blocks: Sequence[str]) -> Iterator[tuple[range, torch.Tensor]]:
        """What an earlier attempt has kept of these blocks, stretch by stretch."""
        import torch

        with self._features_path.open("rb") as file:
            for start, stop, width, at in self._kept.get(self._key(blocks, None), []):
                file.seek(at)
                content = bytearray(file.read((stop - start) * width * FEATURE_BYTES))
                yield range(start, stop), torch.frombuffer(content, dtype=torch.float32).reshape(-1, width)

    def close(self) -> None:
        self._file.close()
        self._features.close()

    def remove(self) -> None:
        """The run has its result: nothing is left to resume."""
        self.close()
        self._path.unlink()
        self._features_path.unlink()


def _read_stretches(file: BinaryIO) -> dict[str, list[_Stretch]]:
    """By key, in the order they were written. What was being written when the process was killed is cut off."""
    found: dict[str, list[_Stretch]] = {}
    size = file.seek(0, 2)
    end = file.seek(0)
    while head := file.readline():
        try:
            key, start, stop, width = json.loads(head)
        except ValueError:
            break
        at = file.tell()
        after = at + (stop - start) * width * FEATURE_BYTES
        if after > size:
            break
        found.setdefault(key, []).append(_Stretch(start, stop, width, at))
        end = file.seek(after)
    file.truncate(end)
    file.seek(end)
    return found
