"""Stores of snapshots: each distinct block once on disk, damage found, nothing unpickled."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from engine.models import build_model, remove_head
from engine.params import InputError
from engine.search_network import build_modules
from engine.snapshot_stores import import_model
from engine.snapshots import SnapshotStore
from engine.synthetic_snapshots import (
    DISTRIBUTIONS,
    draw_descent,
    names_of,
    prepare_synthetic,
    synthetic_folder,
)

NETWORK: dict[str, Any] = {"family": "synthetic", "blocks": 6, "channels": 2, "image_size": 4, "features": 3}


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    """Tiny tensors: more threads than free cores only wait for each other."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def block(value: float) -> tuple[str, dict[str, torch.Tensor]]:
    return "made-up", {"weight": torch.full((2, 3), value), "count": torch.tensor(3)}


@pytest.fixture
def store(tmp_path: Path) -> SnapshotStore:
    return SnapshotStore(tmp_path / "store")


def block_files(store: SnapshotStore) -> list[Path]:
    return sorted((store.folder / "blocks").iterdir())


def test_a_block_that_two_snapshots_share_is_kept_once(store: SnapshotStore) -> None:
    one = store.add("one", NETWORK, [block(1), block(2)])
    two = store.add("two", NETWORK, [block(1), block(3)])
    assert one.blocks[0] == two.blocks[0]
    assert one.blocks[1] != two.blocks[1]
    assert len(block_files(store)) == 3
    assert store.models() == [one, two]
    loaded = store.load(two.blocks[1].hash)
    assert torch.equal(loaded["weight"], torch.full((2, 3), 3.0))
    assert loaded["count"].dtype == torch.int64
    assert store.verify() == []


def test_what_differs_in_kind_shape_or_name_is_another_block(store: SnapshotStore) -> None:
    weights = {"weight": torch.zeros(2, 3)}
    made = store.add("one", NETWORK, [("a", weights), ("b", weights), ("a", {"weight": torch.zeros(3, 2)}),
                                      ("a", {"other": torch.zeros(2, 3)}), ("a", {"weight": torch.zeros(2, 3).half()}),
                                      ("a", {})])
    assert len({found.hash for found in made.blocks}) == 6


def test_removing_forgets_the_snapshot_and_then_its_own_blocks(store: SnapshotStore) -> None:
    store.add("one", NETWORK, [block(1), block(2)])
    kept = store.add("two", NETWORK, [block(1), block(3)])
    store.remove("one")
    assert store.names() == ["two"]
    assert store.remove_unreferenced() > 0
    assert [path.stem for path in block_files(store)] == sorted(found.hash for found in kept.blocks)
    assert store.remove_unreferenced() == 0
    assert store.verify() == []


def test_a_snapshot_that_cannot_be_read_keeps_all_blocks(store: SnapshotStore) -> None:
    store.add("one", NETWORK, [block(1)])
    (store.folder / "models" / "one.json").write_text("{")
    with pytest.raises(InputError, match=r"snapshot one: .*one\.json cannot be read"):
        store.remove_unreferenced()
    assert len(block_files(store)) == 1
    assert len(store.verify()) == 1


def test_verifying_finds_what_is_missing_changed_or_damaged(store: SnapshotStore) -> None:
    made = store.add("one", NETWORK, [block(1), block(2), block(3), block(4)])
    missing, changed, damaged, _ = (store.folder / "blocks" / f"{found.hash}.safetensors" for found in made.blocks)
    missing.unlink()
    content = bytearray(changed.read_bytes())
    content[-1] ^= 1
    changed.write_bytes(content)
    damaged.write_bytes(damaged.read_bytes()[:-5])
    problems = store.verify()
    assert [problem[:18] for problem in problems] == [f"block {found.hash[:12]}" for found in made.blocks[:3]]
    for word, problem in zip(("missing", "has changed", "damaged"), problems, strict=True):
        assert word in problem


@pytest.mark.parametrize("name", ["", "../out", "a/b", ".hidden", "-x", "ü" * 3, "a" * 101])
def test_names_stay_inside_the_store(store: SnapshotStore, name: str) -> None:
    with pytest.raises(InputError, match="a name is 1 to 100 letters"):
        store.add(name, NETWORK, [block(1)])
    assert not store.folder.exists()


def test_a_name_is_taken_once(store: SnapshotStore) -> None:
    store.add("one", NETWORK, [block(1)])
    with pytest.raises(InputError, match="has one of that name"):
        store.add("one", NETWORK, [block(2)])
    assert len(block_files(store)) == 1


@pytest.mark.parametrize(("distribution", "mean", "deviation"), [(n, *d) for n, d in DISTRIBUTIONS.items()])
def test_the_share_of_new_blocks_follows_its_distribution(distribution: str, mean: float, deviation: float) -> None:
    new = [descent.new_blocks for descent in draw_descent(distribution, 20_001, 50, 1)]
    assert min(new) >= 1
    assert max(new) <= 50
    # Truncation at one block moves the narrow distributions a little.
    assert fmean(new) / 50 == pytest.approx(mean, rel=0.06)
    assert stdev(new) / 50 == pytest.approx(deviation, rel=0.1)


def test_a_synthetic_store_shares_what_was_drawn(tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    for _ in range(2):  # the second time it is there
        prepare_synthetic(tmp_path, "half", 5, NETWORK, 3, lambda done, total: told.append((done, total)))
    assert told == [(number, 5) for number in range(1, 6)]
    store = SnapshotStore(synthetic_folder(tmp_path, "half", 5, NETWORK, 3))
    drawn = names_of(draw_descent("half", 5, 6, 3), 6)
    stored = [[found.hash for found in model.blocks] for model in store.models()]
    alike = {tuple(pair) for model, other in zip(drawn, stored, strict=True) for pair in zip(model, other, strict=True)}
    assert len(alike) == len({name for model in drawn for name in model}) == len(block_files(store))
    assert store.verify() == []
    assert list(tmp_path.glob("*/.making-*")) == []


def run_whole(store: SnapshotStore, name: str, pixels: torch.Tensor) -> torch.Tensor:
    model = store.model(name)
    modules = build_modules([model], "cpu")
    with torch.inference_mode():
        for found in model.blocks:
            modules[found.kind].load_state_dict(store.load(found.hash))
            pixels = modules[found.kind](pixels)
    return pixels


def test_a_state_dict_comes_back_as_the_model_it_was(store: SnapshotStore, tmp_path: Path) -> None:
    torch.manual_seed(5)
    model = build_model("resnet18", 32, "random", classes=7)
    save_file(model.state_dict(), tmp_path / "state.safetensors")
    import_model(store, "mine", "resnet18", 32, tmp_path / "state.safetensors")
    remove_head(model)
    pixels = torch.rand(2, 3, 32, 32)
    with torch.inference_mode():
        expected = model.eval()(pixels)
    assert torch.allclose(run_whole(store, "mine", pixels), expected, atol=1e-6)
    # Another model of the same network, with random weights, shares no weights but runs the same code.
    import_model(store, "fresh", "resnet18", 32, seed=1)
    assert run_whole(store, "fresh", pixels).shape == expected.shape
    assert store.verify() == []


def test_a_state_dict_that_does_not_fit_is_refused_in_one_sentence(store: SnapshotStore, tmp_path: Path) -> None:
    save_file({"weight": torch.zeros(1)}, tmp_path / "other.safetensors")
    with pytest.raises(InputError, match=r"does not fit resnet18 .*; name the model it is of$"):
        import_model(store, "mine", "resnet18", 32, tmp_path / "other.safetensors")
    (tmp_path / "pickled.pt").write_bytes(pickle.dumps({"weight": [0.0]}))
    with pytest.raises(InputError, match="cannot be read as safetensors"):
        import_model(store, "mine", "resnet18", 32, tmp_path / "pickled.pt")
    with pytest.raises(InputError, match="there is no such file"):
        import_model(store, "mine", "resnet18", 32, tmp_path / "none")
    with pytest.raises(InputError, match="reads text"):
        import_model(store, "mine", "bert", 32)
    assert store.names() == []
