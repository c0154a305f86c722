"""Training alone and together: the same curve, phases and stages told apart, and one killed rank ends the run only."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest
from driven_lab import Lab
from measured_run import MeasuredRun
from own_process import in_child
from pydantic import ValidationError

from engine import revnets
from engine.experiments import training
from engine.experiments.training import Params, cannot_run
from engine.home import SweepFolder
from engine.journal import Batches, list_journals, read_records
from engine.nvml import GpuDevice, Gpus
from engine.reversible import run_reversibly
from engine.sweep_state import read_process, read_state
from store.database import Store

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


def measured_batches(folder: SweepFolder, attempt: str) -> int:
    records = [record for journal in list_journals(folder.runs, attempt) for record in read_records(journal)]
    return sum(len(record.items) for record in records if isinstance(record, Batches))


def caught(folder: SweepFolder, seed: int) -> tuple[str, list[psutil.Process]]:
    """A run in its measured loop: its ranks in their order."""
    def running() -> list[Any]:
        return [run for run in read_state(folder).runs.values() if run.status == "running" and run.pid
                and run.asked["seed"] == seed and measured_batches(folder, f"{run.run_id}.{run.attempt}.") > 2]

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

    # The sweep goes on. Killed together with the run, neither is there to end the ranks; they end all the same.
    other, ranks = caught(folder, seed=2)
    everybody[:] = [process for rank in ranks for process in (rank, *rank.children(recursive=True))]
    run, measuring = ranks[0].parent(), psutil.Process(read_process(folder)["pid"])
    assert run
    run.suspend()  # or it would end its group when the sweep's process goes
    ranks[1].suspend()  # torch's own farewell is an interrupt, which a rank that waits inside C++ does not heed
    measuring.kill()
    run.kill()
    wait_for(lambda: gone([run, measuring, *everybody]), 10)

    # A cancel reaches the ranks and keeps what they measured.
    lab.json("resume", folder.sweep_id)
    other, ranks = caught(folder, seed=2)
    lab.json("cancel", folder.sweep_id)
    wait_for(lambda: gone(ranks), 10)
    by_id = {run["run_id"]: run for run in lab.json("runs")["runs"]}
    assert by_id[other]["status"] == "cancelled" and by_id[other]["phases"]["backward"]["count"] > 2
    assert by_id[run_id]["phases"]["backward"]["count"] > 2


@pytest.mark.parametrize(("values", "words"), [
    ({"method": "sharded"}, "method"),
    ({"train_images": 10, "method": "ddp", "batch_size": 8}, "fewer than one global batch of 16"),
    ({"batch_size": 1, "image_size": 32}, "has one value per channel and cannot train on it; .* or norm=group"),
    ({"batch_size": None, "train_images": 640, "method": "checkpointing"}, "global batch of 1500"),
    ({"model": "bert"}, "reads text"),
])
def test_wrong_settings_are_refused(values: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        Params(**values)


def test_one_image_is_refused_only_where_batch_norm_has_one_value_of_it() -> None:
    for fits in ({"model": "vit_b_32", "image_size": 32}, {"image_size": 33}, {"model": "revnet_3", "image_size": 32},
                 {"image_size": 32, "norm": "group"}, {"image_size": 32, "batch_size": 2}):
        assert Params(**{"batch_size": 1, **fits}).device_batch_size < 3


def test_dp_on_a_cpu_is_skipped_for_what_was_asked() -> None:
    """Also where there are GPUs: they are not the reason."""
    assert "device=cpu was asked for" in str(cannot_run(Params(method="dp", device="cpu"), Gpus()))
    assert "needs 2 CUDA devices and this machine has 0" in str(cannot_run(Params(method="dp"), Gpus()))


@pytest.mark.parametrize("method", ["ddp", "fsdp"])
def test_ranks_do_not_go_to_the_cpu_beside_a_gpu(method: Any) -> None:
    """Their times would be divided by those of the baseline, which is on the GPU."""
    one, two = Gpus(), Gpus()
    two.devices = [GpuDevice(index, f"GPU-{index}", "T4", 2**34, None) for index in range(2)]
    one.devices = two.devices[:1]
    assert "needs 2 GPUs and this machine has 1; on the CPU" in str(cannot_run(Params(method=method), one))
    for asked, gpus in ((Params(method=method), Gpus()), (Params(method=method), two),
                        (Params(method=method, device="cpu"), one), (Params(method=method, devices=1), one),
                        (Params(), one)):
        assert cannot_run(asked, gpus) is None


@pytest.mark.parametrize(("method", "chains"), [("baseline", False), ("reversible", True)])
def test_a_revnet_is_reversible_only_where_that_is_the_method(
        method: Any, chains: bool, tmp_path: Path, image_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[int] = []
    monkeypatch.setattr(revnets, "run_reversibly", lambda units, *halves: (
        ran.append(len(units)), run_reversibly(units, *halves))[1])
    params = Params(method=method, model="revnet_3", batch_size=4, image_size=32, train_images=8, val_images=0,
                    workers=0, threads=1)
    training.prepare([params], image_cache, lambda done, total: None)
    measured = MeasuredRun(tmp_path, image_cache)
    training.run(params, measured.recorder)
    assert bool(ran) == chains
    found = measured.metrics()
    assert found["batches"] == 2 and ("gradient_error" in found) == chains
    assert not chains or found["gradient_error"] < 1e-12


def sharded_step(folder: Path) -> int:
    import torch

    from engine.models import build_model
    from engine.parallel import wrap

    torch.distributed.init_process_group("gloo", init_method=f"file://{folder / 'meeting'}", rank=0, world_size=1)
    model = wrap(build_model("revnet_3", 32, "random"), "fsdp", "cpu", 1)
    model(torch.rand(2, 3, 32, 32)).sum().backward()
    return sum(parameter.grad is None for parameter in model.parameters())


def test_fsdp_shards_networks_of_lists_within_lists(tmp_path: Path) -> None:
    assert in_child(sharded_step, tmp_path) == 0


def test_reversible_training_of_another_network_is_skipped() -> None:
    assert "resnet18 has no reversible blocks" in str(cannot_run(Params(method="reversible"), Gpus()))
    assert cannot_run(Params(method="reversible", model="revnet_3"), Gpus()) is None


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
