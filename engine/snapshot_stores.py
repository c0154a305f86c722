"""The stores of snapshots that people made: importing models into them, listing, verifying and cleaning them.

`python -m engine.snapshot_stores` does for lab.py what needs torch: a request as JSON in, an answer as JSON out.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from engine.home import lab_home
from engine.models import ModelError
from engine.params import InputError
from engine.snapshots import SnapshotStore, StoredModel, check_name


def stores_folder(cache: Path) -> Path:
    """Beside the cache: what people imported cannot be made again."""
    return cache.parent / "snapshots"


def list_stores(cache: Path) -> list[str]:
    folder = stores_folder(cache)
    return sorted(entry.name for entry in os.scandir(folder) if entry.is_dir()) if folder.is_dir() else []


def import_model(store: SnapshotStore, name: str, model: str, image_size: int, state: Path | None = None,
                 seed: int = 0) -> StoredModel:
    """A torchvision model: with the weights of a safetensors file of its state dict, or random ones."""
    import torch
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    from engine.models import PRETRAINED_CLASSES, build_model, find_head
    from engine.search_network import cut_features, torchvision_network

    network = torchvision_network(model, image_size)
    torch.manual_seed(seed)
    built = build_model(model, image_size, "random")
    if state is not None:
        try:
            weights = load_file(state)
            head = weights.get(f"{find_head(built)[0]}.weight")
            if head is not None and head.shape[0] != PRETRAINED_CLASSES:
                built = build_model(model, image_size, "random", classes=head.shape[0])
            built.load_state_dict(weights)
        except FileNotFoundError:
            raise InputError(f"state={state}: there is no such file; give a safetensors file") from None
        except (SafetensorError, OSError) as error:
            raise InputError(f"state={state}: it cannot be read as safetensors ({error}); other formats can run code "
                             "when they are read: convert it first") from None
        except RuntimeError as error:
            problem = " ".join(str(error).split())[:200]
            raise InputError(f"state={state}: it does not fit {model} ({problem}); name the model it is of") from None
    return store.add(name, network, [(block.kind, block.module.state_dict())
                                     for block in cut_features(built, network)])


def answer(asked: dict[str, Any], cache: Path) -> dict[str, Any]:
    """What was done, as lines for a person and as fields for a script."""
    if not asked["store"]:
        if asked["action"] != "list":
            raise InputError(f"snapshots {asked['action']}: name the store it is about")
        listed = {store: SnapshotStore(stores_folder(cache) / store).names() for store in list_stores(cache)}
        return {"stores": listed, "lines": [f"{store:<24} {len(names):>6} snapshots" for store, names in listed.items()]
                or ["no store yet: `lab.py snapshots import STORE NAME` makes one"]}
    check_name(asked["store"])
    store = SnapshotStore(stores_folder(cache) / asked["store"])
    if asked["action"] == "import":
        made = import_model(store, asked["name"], asked["model"], asked["image_size"],
                            Path(asked["state"]) if asked["state"] else None, asked["seed"])
        return {"snapshot": made.name, "blocks": [block.hash for block in made.blocks],
                "lines": [f"{made.name}: {len(made.blocks)} blocks of {asked['model']}"]}
    if asked["store"] not in list_stores(cache):
        raise InputError(f"store {asked['store']}: there is no such store (there are "
                         f"{', '.join(list_stores(cache)) or 'none'}); import a snapshot to make it")
    if asked["action"] == "verify":
        problems = store.verify()
        return {"problems": problems, "lines": problems or ["all blocks are there and have the content they should"]}
    if asked["action"] == "remove":
        store.remove(asked["name"])
        return {"removed": asked["name"], "lines": [f"{asked['name']} is removed; `clean` deletes its own blocks"]}
    if asked["action"] == "clean":
        freed = store.remove_unreferenced()
        return {"freed_bytes": freed, "lines": [f"{freed} bytes freed"]}
    models = store.models()
    return {"snapshots": [{"name": model.name, "network": model.network, "blocks": len(model.blocks)}
                          for model in models],
            "distinct_blocks": len({block.hash for model in models for block in model.blocks}),
            "lines": [f"{model.name:<32} {len(model.blocks):>4} blocks" for model in models]
            or ["no snapshots; `clean` deletes the blocks that are left"]}


def main() -> None:
    try:
        print(json.dumps(answer(json.load(sys.stdin), lab_home().cache)))
    except (InputError, ModelError) as error:
        sys.exit(str(error))
    except OSError as error:
        sys.exit(f"{error.filename or 'a file'}: {error.strerror or error}; see to the disk's space and rights")


if __name__ == "__main__":
    main()
