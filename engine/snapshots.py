"""A store of model snapshots: each is a list of content-hashed blocks, and each distinct block is on disk once.

    <store>/models/<name>.json           the network, and the hash and kind of every block
    <store>/blocks/<hash>.safetensors    weights only; nothing is ever unpickled

The hash covers the kind of the block, so equal weights in different code are different blocks.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from engine.files import locked, write_atomically
from engine.params import InputError, shorten

if TYPE_CHECKING:
    import torch

NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,99}")
HASH = re.compile(r"[0-9a-f]{64}")
Tensors = Mapping[str, "torch.Tensor"]


class StoredBlock(NamedTuple):
    hash: str
    kind: str
    """Which code runs it: a name that engine/search_network.py knows."""


class StoredModel(NamedTuple):
    name: str
    network: dict[str, Any]
    blocks: list[StoredBlock]


class SnapshotStore:
    """One folder of snapshots. Reading needs no lock; adding and cleaning take the store's."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def add(self, name: str, network: dict[str, Any], blocks: Sequence[tuple[str, Tensors]]) -> StoredModel:
        """Blocks that are there already are not written again."""
        check_name(name)
        (self.folder / "models").mkdir(parents=True, exist_ok=True)
        (self.folder / "blocks").mkdir(exist_ok=True)
        with locked(self.folder / "store.lock"):
            if self._manifest(name).exists():
                raise InputError(f"snapshot {name}: the store has one of that name; choose another or remove it first")
            model = StoredModel(name, network, [self._put(kind, tensors) for kind, tensors in blocks])
            write_atomically(self._manifest(name), json.dumps(
                {"network": network, "blocks": [list(block) for block in model.blocks]}).encode())
        return model

    def _put(self, kind: str, tensors: Tensors) -> StoredBlock:
        from safetensors.torch import save

        found = hash_block(kind, tensors)
        if not self._block(found).exists():
            whole = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}
            write_atomically(self._block(found), save(whole, {"kind": kind}))
        return StoredBlock(found, kind)

    def names(self) -> list[str]:
        folder = self.folder / "models"
        return sorted(path.stem for path in folder.glob("*.json")) if folder.is_dir() else []

    def model(self, name: str) -> StoredModel:
        check_name(name)
        try:
            content = json.loads(self._manifest(name).read_bytes())
            blocks = [StoredBlock(*block) for block in content["blocks"]]
            if not blocks or not all(HASH.fullmatch(block.hash) for block in blocks):
                raise ValueError("its list of blocks is empty or has entries that are no hashes")
            return StoredModel(name, dict(content["network"]), blocks)
        except FileNotFoundError:
            raise InputError(f"snapshot {name}: {self.folder} has none of that name") from None
        except (ValueError, TypeError, KeyError) as error:
            raise InputError(f"snapshot {name}: {self._manifest(name)} cannot be read ({error}); remove the file and "
                             "add the snapshot again") from None

    def models(self) -> list[StoredModel]:
        return [self.model(name) for name in self.names()]

    def load(self, block: str) -> dict[str, torch.Tensor]:
        """Read whole, so that the time of reading is spent here and not when the weights are first used."""
        from safetensors import SafetensorError
        from safetensors.torch import load

        try:
            return dict(load(self._block(block).read_bytes()))
        except FileNotFoundError:
            raise InputError(f"block {block[:12]}: it is missing in {self.folder}; verify the store") from None
        except SafetensorError as error:
            raise InputError(f"block {block[:12]}: its file is damaged ({error}); verify the store") from None

    def size_bytes(self, block: str) -> int:
        return self._block(block).stat().st_size

    def verify(self) -> list[str]:
        """Every block that a snapshot names is there and has the content that its name promises; one line each."""
        problems, kinds = [], {}
        for name in self.names():
            try:
                kinds.update({block.hash: block.kind for block in self.model(name).blocks})
            except InputError as error:
                problems.append(str(error))
        for block, kind in kinds.items():
            try:
                if hash_block(kind, self.load(block)) != block:
                    problems.append(f"block {block[:12]}: its content has changed; add its snapshots again")
            except InputError as error:
                problems.append(str(error))
        return problems

    def remove(self, name: str) -> None:
        """Forget a snapshot. Its blocks stay until the unreferenced ones are removed."""
        self.model(name)
        with locked(self.folder / "store.lock"):
            self._manifest(name).unlink()

    def remove_unreferenced(self) -> int:
        """Delete the blocks that no snapshot names; returns the bytes freed. A snapshot that cannot be read may name
        any of them, so then nothing is deleted."""
        if not (self.folder / "blocks").is_dir():
            return 0
        with locked(self.folder / "store.lock"):
            named = {block.hash for model in self.models() for block in model.blocks}
            freed = 0
            for path in (self.folder / "blocks").iterdir():
                if path.name.partition(".")[0] not in named:
                    freed += path.stat().st_size
                    path.unlink()
        return freed

    def _manifest(self, name: str) -> Path:
        return self.folder / "models" / f"{name}.json"

    def _block(self, block: str) -> Path:
        return self.folder / "blocks" / f"{block}.safetensors"


def check_name(name: str) -> None:
    if not NAME.fullmatch(name):
        raise InputError(f"snapshot {shorten(name)}: a name is 1 to 100 letters, digits, dots, dashes and underscores "
                         "and does not begin with a dot or a dash; choose another")


def hash_block(kind: str, tensors: Tensors) -> str:
    """By content, not by file: the same whatever version of safetensors wrote it."""
    import torch

    found = hashlib.sha256(kind.encode())
    for name in sorted(tensors):
        tensor = tensors[name].detach().cpu().contiguous()
        found.update(f"\0{name}\0{tensor.dtype}\0{list(tensor.shape)}\0".encode())
        found.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return found.hexdigest()
