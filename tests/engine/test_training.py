"""Training alone and together: the same curve, phases and stages told apart, and one killed rank ends the run only."""

from __future__ import annotations

import gzip
import json
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest
from driven_lab import Lab
from pydantic import ValidationError

from engine.experiments.training import Params
from engine.home import SweepFolder
from engine.journal import Batches, list_journals, read_records
from engine.sweep_state import read_state
from store.database import Store
from ui.operators_view import read_operators

TINY = {"norm": "group", "image_size": 32, "train_images": 48, "val_images": 12, "workers": 1, "threads": 1}
PHASES = {"load_data", "data_to_device", "forward", "backward", "optimizer"}


def sweep(lab: Lab, grid: dict[str, list[Any]], **fixed: Any) -> dict[str, dict[str, Any]]:
    """By method."""
    file = lab.sweep_file(experiment="training", order="as_listed", grid=grid, fixed=TINY | fixed)
    answer = lab.json("sweep", file, "--wait", expect=(0, 1))
    return {run["params"]["method"]: run for run in lab.json("runs", "--sweep", answer["sweep_id"])["runs"]}


def losses(lab: Lab, run: dict[str, Any]) -> list[float]:
    with Store.open(lab.home) as store:
        rows = store.connection.execute("SELECT value FROM samples WHERE run_id = ? AND device = 'training' "
                                        "AND metric = 'loss' ORDER BY time_s", [run["run_id"]]).fetchall()
    return [value for (value,) in rows]


def test_several_devices_train_like_one_with_the_same_global_batch(lab: Lab, images: Path) -> None:
    alone = sweep(lab, {"method": ["baseline", "checkpointing", "dp"]}, batch_size=16)
    together = sweep(lab, {"method": ["ddp", "fsdp"]}, batch_size=8, devices=2)
    assert alone["dp"]["status"] == "skipped" and "needs 2 CUDA devices" in alone["dp"]["reason"]
    one = losses(lab, alone["baseline"])
    assert len(one) == 3 and one[0] != pytest.approx(one[-1], rel=1e-3), "it learns something, or nothing is compared"
    assert alone["checkpointing"]["metrics"]["gradient_error"] < 1e-6
    for method, run in {**together, "checkpointing": alone["checkpointing"]}.items():
        assert run["status"] == "ok", (method, run["reason"])
        assert losses(lab, run) == pytest.approx(one, rel=1e-4), method
        for name in ("val_loss", "val_accuracy"):
            assert run["metrics"][name] == pytest.approx(alone["baseline"]["metrics"][name], rel=1e-3), (method, name)
    for run in (alone["baseline"], *together.values()):
        check_told(lab, run)


def check_told(lab: Lab, run: dict[str, Any]) -> None:
    """Phases, stages and numbers of a run; what other ranks measured is there, too."""
    method, effective, metrics = run["params"]["method"], run["effective"], run["metrics"]
    ranks = 1 if method == "baseline" else 2
    assert set(run["phases"]) == PHASES and {phase["count"] for phase in run["phases"].values()} == {3}
    assert (effective["devices"], effective["global_batch_size"]) == (ranks, 16)
    assert effective["batch_size"] == 16 / ranks and effective["train_images"] == metrics["items"] == 48
    shown = lab.json("show", run["run_id"])
    stages = [stage["stage"] for stage in shown["stages"]]
    assert stages == ["start_process", "prepare_data", "init_model", "model_to_device", "warm_up", "measure",
                      "validate", "finish"]
    by_name = {stage["stage"]: stage for stage in shown["stages"]}
    assert metrics["actual_epoch_s"] <= metrics["end_to_end_s"]
    assert by_name["validate"]["start_s"] >= by_name["measure"]["start_s"] + by_name["measure"]["seconds"]
    others = {name for name in metrics if name.startswith("rank_")}
    assert others == ({f"rank_1_{phase}_s" for phase in PHASES} if ranks == 2 else set())
    kept = [file["title"] for file in shown["files"]]
    assert ("journal of rank 1" in kept) == (ranks == 2)  # its log too, where torch had something to say


def wait_for(true: Callable[[], bool], seconds: float = 120) -> None:
    until = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < until, "did not come about"
        time.sleep(0.05)


def measured_batches(folder: SweepFolder, run_id: str) -> int:
    records = [record for journal in list_journals(folder.runs, run_id) for record in read_records(journal)]
    return sum(len(record.items) for record in records if isinstance(record, Batches))


def caught(folder: SweepFolder, seed: int) -> tuple[str, list[psutil.Process]]:
    """A run in its measured loop: its ranks in their order."""
    def running() -> list[Any]:
        return [run for run in read_state(folder).runs.values() if run.status == "running" and run.pid
                and run.asked["seed"] == seed and measured_batches(folder, run.run_id) > 2]

    wait_for(lambda: bool(running()))
    run = running()[0]
    return run.run_id, sorted(psutil.Process(run.pid).children(), key=lambda process: process.create_time())


def gone(processes: list[psutil.Process]) -> bool:
    return not [p for p in processes if p.is_running() and p.status() != psutil.STATUS_ZOMBIE]


def test_a_killed_rank_ends_its_run_and_nothing_else(lab: Lab, images: Path) -> None:
    file = lab.sweep_file(experiment="training", order="as_listed", grid={"seed": [1, 2]}, fixed=TINY | {
        "method": "ddp", "batch_size": 4, "train_images": 80, "epochs": 100})
    folder = lab.home.sweep(lab.json("sweep", file)["sweep_id"])
    run_id, ranks = caught(folder, seed=1)
    everybody: list[psutil.Process] = []

    def seen_with_workers() -> bool:
        """Between two epochs a rank has no worker for a moment."""
        everybody[:] = [process for rank in ranks for process in (rank, *rank.children(recursive=True))]
        return len(everybody) == 4

    assert len(ranks) == 2
    wait_for(seen_with_workers)
    ranks[1].kill()
    wait_for(lambda: gone(everybody), 10)
    wait_for(lambda: read_state(folder).runs[run_id].status != "running", 10)
    state = read_state(folder).runs[run_id]
    assert state.status == "failed" and "rank 1 was ended" in state.reason
    assert "the log of rank 1" in lab.json("show", run_id)["log"]

    # The sweep goes on; a cancel reaches its ranks and keeps what they measured.
    other, ranks = caught(folder, seed=2)
    lab.json("cancel", folder.sweep_id)
    wait_for(lambda: gone(ranks), 10)
    by_id = {run["run_id"]: run for run in lab.json("runs")["runs"]}
    assert by_id[other]["status"] == "cancelled" and by_id[other]["phases"]["backward"]["count"] > 2
    assert by_id[run_id]["phases"]["backward"]["count"] > 2


def test_the_profiled_pass_is_apart_and_its_files_open(lab: Lab, images: Path) -> None:
    file = lab.sweep_file(experiment="inference", grid={"profile": [True]}, fixed={
        "image_size": 32, "batch_size": 4, "batches": 4, "workers": 1, "threads": 1})
    answer = lab.json("sweep", file, "--wait")
    (run,) = lab.json("runs")["runs"]
    assert answer["runs"] == {"ok": 1} and run["metrics"]["batches"] == 4
    shown = lab.json("show", run["run_id"])
    assert [stage["stage"] for stage in shown["stages"]][-3:] == ["measure", "profile", "finish"]
    trace, packed, table = [lab.home.sweep(answer["sweep_id"]).path / file["path"] for file in shown["files"]]
    events = json.loads(gzip.decompress(trace.read_bytes()))["traceEvents"]
    assert sum(event.get("name") == "step" and event.get("cat") == "user_annotation" for event in events) == 3
    with zipfile.ZipFile(packed) as archive:
        (name,) = archive.namelist()
        assert name.endswith(".pt.trace.json.gz") and archive.read(name) == trace.read_bytes()
    operators = read_operators(table)
    assert operators and "aten::mkldnn_convolution" in {row["name"] for row in operators[:5]}
    assert read_operators(trace) is None and read_operators(table.with_name("none")) is None


@pytest.mark.parametrize(("values", "words"), [
    ({"method": "sharded"}, "method"),
    ({"train_images": 10, "method": "ddp", "batch_size": 8}, "fewer than one global batch of 16"),
    ({"batch_size": 1}, "choose norm=group"),
    ({"batch_size": None, "train_images": 640, "method": "checkpointing"}, "global batch of 1500"),
    ({"model": "bert"}, "reads text"),
])
def test_wrong_settings_are_refused(values: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        Params(**values)


def test_without_a_batch_size_it_is_the_one_of_seed_002() -> None:
    asked = {"batch_size": None, "train_images": 100_000}
    assert [Params(method=method, **asked).global_batch_size for method in ("baseline", "checkpointing", "dp", "ddp")
            ] == [512, 1500, 2500, 3000]


def test_group_norm_takes_the_place_of_every_batch_norm() -> None:
    from torch import nn

    from engine.models import build_model
    from engine.norms import use_group_norm

    model = build_model("mobilenet_v2", 32, "random", 10)
    before = sum(isinstance(module, nn.BatchNorm2d) for module in model.modules())
    assert use_group_norm(model) == before > 10
    assert not [module for module in model.modules() if isinstance(module, nn.BatchNorm2d)]
    assert sum(isinstance(module, nn.GroupNorm) for module in model.modules()) == before
