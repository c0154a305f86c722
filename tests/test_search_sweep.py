"""Searches as sweeps: every strategy in the store like any run, and kill -9 in the middle of one."""

from __future__ import annotations

import json
import os
import re
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from driven_lab import Lab

from engine.experiments.search import FEATURES
from engine.home import SweepFolder
from engine.launch import launch, wait_until_ended
from engine.params import InputError
from engine.search_network import torchvision_network
from engine.search_plan import STRATEGIES
from engine.snapshot_stores import import_model
from engine.snapshots import SnapshotStore
from engine.spec import make_spec
from engine.sweep_state import read_state

SMALL = {"models": 6, "blocks": 8, "channels": 4, "items": 100, "image_size": 4, "threads": 1}


def result_of(lab: Lab, run: dict[str, Any]) -> Any:
    return json.loads((files_of(lab, run) / "search.json").read_text())


def files_of(lab: Lab, run: dict[str, Any]) -> Path:
    return lab.home.sweep(run["sweep_id"]).runs / f"{run['run_id']}.files"


def test_strategies_are_runs_like_any_other(lab: Lab) -> None:
    file = lab.sweep_file(experiment="search", grid={"strategy": list(STRATEGIES)},
                          fixed={**SMALL, "snapshots": "quarter", "batch_size": 40})
    sweep_id = lab.json("sweep", file, "--wait")["sweep_id"]
    runs = {run["params"]["strategy"]: run for run in lab.json("runs", "--sweep", sweep_id)["runs"]}
    assert [run["status"] for run in runs.values()] == ["ok"] * 4
    for run in runs.values():
        assert run["metrics"]["items"] == 100
        assert {"plan", "load_state", "data_to_device", "inference", "score"} == set(run["phases"])
        assert run["metrics"]["activation_peak_bytes"] <= run["metrics"]["predicted_peak_bytes"]
        assert run["metrics"]["resumed_models"] == 0
        assert run["metrics"]["resumed_items"] == 0
        told = [event["text"] for event in lab.json("show", run["run_id"])["events"]]
        prices = [float(text.partition("priced at ")[2].partition(" s of")[0]) for text in told]
        assert len(prices) == len(result_of(lab, run)["rounds"])
        assert sum(prices) == pytest.approx(run["metrics"]["priced_inference_s"], abs=0.001 * len(prices))
    work = {name: run["metrics"]["block_items"] for name, run in runs.items()}
    assert work["exhaustive"] == runs["exhaustive"]["metrics"]["exhaustive_block_items"] == 6 * 8 * 100
    for name in ("shared_prefix", "shared_prefix_halving"):
        assert work[name] == runs[name]["metrics"]["bound_block_items"]
    assert work["shared_prefix_halving"] < work["halving"] < work["exhaustive"]
    rankings = {name: [ranked["model"] for ranked in result_of(lab, run)["ranking"]] for name, run in runs.items()}
    assert rankings["exhaustive"] == rankings["shared_prefix"]
    assert rankings["halving"] == rankings["shared_prefix_halving"]
    assert {path.name for path in files_of(lab, runs["halving"]).iterdir()} == {"search.json", "plan.txt"}
    assert len(lab.json("show", runs["halving"]["run_id"])["files"]) == 2
    printed = (files_of(lab, runs["shared_prefix"]) / "plan.txt").read_text().splitlines()
    assert printed[1].startswith("6 models, ")
    assert printed[2] == "items 0-32: take the items"


def test_wrong_asks_are_one_sentence(lab: Lab, tmp_path: Path) -> None:
    one_class = tmp_path / "images"
    (one_class / "cat").mkdir(parents=True)
    (one_class / "cat" / "1.png").touch()
    mine = SnapshotStore(lab.home.root / "snapshots" / "mine")
    for name, model in (("cnn", "resnet18"), ("vit", "vit_b_32"), ("other", "resnet18")):
        mine.add(name, torchvision_network(model, 32), [("stem", {})])
    imported = {"snapshots": "mine", "strategy": "exhaustive"}
    for grid, fixed, sentence in [
        ({"snapshots": ["none"]}, {}, "snapshots=none: there is no such store (there are top_layers, quarter, half, "
                                      "mine); import one with `python lab.py snapshots import`"),
        ({"snapshots": ["../up"]}, {}, "snapshots=../up: must be one of top_layers, quarter, half or the name of"),
        ({"strategy": ["random"]}, {}, "strategy=random: must be one of exhaustive, halving"),
        ({"items": [64]}, {}, "items=64: the first of 6 rounds would have 2; the score needs 5, so ask for at least "
                              "129 items or fewer models"),
        ({"items": [5]}, {"snapshots": "mine", "image_size": 32}, "items=5: the first of 2 rounds would have 3; "),
        ({"data": [str(one_class)]}, {}, f"data={one_class}: has one class only, so there is nothing to tell apart"),
        ({"image_size": [8]}, imported,
         "image_size=8: resnet18 needs at least 32, and the store mine holds it (cnn); choose another size"),
        ({"image_size": [64]}, imported,
         "image_size=64: vit_b_32 was imported for 32 px and takes no other, and the store mine holds it (vit)"),
    ]:
        with pytest.raises(InputError, match="^" + re.escape(sentence)):
            launch(lab.home, make_spec({"experiment": "search", "grid": grid, "fixed": fixed}))
    assert lab.home.sweep_ids() == []
    file = lab.sweep_file(experiment="search", grid={"budget_bytes": [1000]}, fixed=SMALL)
    lab.json("sweep", file, "--wait", expect=1)
    (run,) = lab.json("runs")["runs"]
    assert run["status"] == "failed"
    assert "budget_bytes=1000: one item needs" in run["reason"]


def test_an_imported_store_is_listed_searched_verified_and_cleaned(lab: Lab) -> None:
    assert lab.json("snapshots")["stores"] == {}
    lab.json("snapshots", "import", "mine", "one", "--model", "mobilenet_v2", "--image-size", "32", "--seed", "1")
    # The second one without another process that loads torch.
    import_model(SnapshotStore(lab.home.root / "snapshots" / "mine"), "two", "mobilenet_v2", 32, seed=2)
    assert lab.json("snapshots")["stores"] == {"mine": ["one", "two"]}
    assert lab.json("snapshots", "verify", "mine")["problems"] == []
    file = lab.sweep_file(experiment="search", grid={"strategy": ["halving", "shared_prefix"]}, fixed={
        "snapshots": "mine", "items": 10, "image_size": 32, "threads": 1})
    assert lab.json("sweep", file, "--wait")["runs"] == {"ok": 2}
    for run in lab.json("runs")["runs"]:
        assert {ranked["model"] for ranked in result_of(lab, run)["ranking"]} == {"one", "two"}
    lab.json("snapshots", "remove", "mine", "two")
    assert lab.json("snapshots", "clean", "mine")["freed_bytes"] > 1_000_000
    listed = lab.json("snapshots", "list", "mine")
    assert [(snapshot["name"], snapshot["blocks"]) for snapshot in listed["snapshots"]] == [("one", 19)]
    assert listed["distinct_blocks"] == 19
    mine = SnapshotStore(lab.home.root / "snapshots" / "mine")
    next(iter((mine.folder / "blocks").iterdir())).unlink()
    (problem,) = lab.json("snapshots", "verify", "mine", expect=1)["problems"]
    assert "it is missing in" in problem
    lab.json("snapshots", "remove", "mine", "one")
    with pytest.raises(InputError, match=r"^snapshots=mine: this store has no snapshots; import one with "):
        launch(lab.home, make_spec({"experiment": "search", "grid": {"snapshots": ["mine"]}}))
    assert lab.json("snapshots", "list", "mine")["snapshots"] == []
    assert lab.json("snapshots", "clean", "mine")["freed_bytes"] > 1_000_000
    assert list((mine.folder / "blocks").iterdir()) == []
    code, _, err = lab.call("snapshots", "verify", "other")
    assert (code, err) == (2, "error: store other: there is no such store (there are mine); import a snapshot to make "
                              "it\n")
    with pytest.raises(InputError, match=r"^model='resnet19': not known"):
        import_model(SnapshotStore(lab.home.root / "snapshots" / "mine"), "three", "resnet19", 32)


def wait_for(true: Callable[[], object], what: str) -> None:
    until = time.monotonic() + 120
    while not true():
        assert time.monotonic() < until, f"did not come about: {what}"
        time.sleep(0.01)


def finished_scores(folder: SweepFolder) -> int:
    return sum(len(file.read_text().split("\n")) - 2 for file in folder.runs.glob("*.files/finished_scores.txt"))


def kill_and_resume(lab: Lab, folder: SweepFolder, far_enough: Callable[[], bool]) -> tuple[bytes, dict[str, Any]]:
    """kill -9 as soon as it has come that far; the features that were on disk then, and the run after its resume."""
    wait_for(far_enough, "the search has come far enough")
    (run,) = read_state(folder).runs.values()
    assert run.pid
    os.kill(run.pid, signal.SIGKILL)
    assert wait_until_ended(folder, 120)
    (features,) = folder.runs.glob("*.files/finished_features")
    kept = features.read_bytes()
    assert lab.json("resume", folder.sweep_id, "--wait")["runs"] == {"ok": 1}
    (resumed,) = lab.json("runs")["runs"]
    assert resumed["attempt"] == 2
    ranking = result_of(lab, resumed)["ranking"]
    assert sorted(ranked["model"] for ranked in ranking) == [f"model_{number:02d}" for number in range(16)]
    assert [ranked["score"] for ranked in ranking] == sorted((r["score"] for r in ranking), reverse=True)
    assert {path.name for path in files_of(lab, resumed).iterdir()} == {"search.json", "plan.txt"}
    return kept, resumed


def test_a_killed_search_does_not_compute_finished_models_again(lab: Lab) -> None:
    models, blocks, items = 16, 16, 4000
    file = lab.sweep_file(experiment="search", grid={"strategy": ["exhaustive"]}, fixed={
        "models": models, "blocks": blocks, "channels": 16, "items": items, "threads": 1})
    folder = lab.home.sweep(lab.json("sweep", file)["sweep_id"])
    _, resumed = kill_and_resume(lab, folder, lambda: finished_scores(folder) >= 2)
    finished = int(resumed["metrics"]["resumed_models"])
    assert 2 <= finished < models, "killed in mid-search"
    assert resumed["metrics"]["block_items"] == (models - finished) * blocks * items


def test_a_killed_search_in_chunks_goes_on_with_the_next_chunk(lab: Lab) -> None:
    """With shared prefixes no model is finished before the last chunk: what is kept are features."""
    models, items, chunk = 16, 16_000, 500
    file = lab.sweep_file(experiment="search", grid={"strategy": ["shared_prefix"]}, fixed={
        "models": models, "blocks": 16, "channels": 16, "items": items, "batch_size": chunk, "threads": 1,
        "snapshots": "half"})
    folder = lab.home.sweep(lab.json("sweep", file)["sweep_id"])

    def kept_bytes() -> int:
        return sum(path.stat().st_size for path in folder.runs.glob("*.files/finished_features"))

    a_chunk = models * chunk * FEATURES * 4
    kept, resumed = kill_and_resume(lab, folder, lambda: kept_bytes() > 2 * a_chunk)
    done = len(kept) // a_chunk
    assert 2 <= done < items // chunk, "killed in mid-search"
    metrics = resumed["metrics"]
    assert (metrics["resumed_models"], metrics["resumed_items"]) == (0, done * chunk)
    assert metrics["block_items"] == metrics["bound_block_items"] * (items - done * chunk) // items
