"""The experiment `loading` through the command line: what was asked, what took effect, and what the clock saw."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

from driven_lab import Lab
from PIL import Image

SMALL = {"image_size": 32, "batch_size": 4, "batches": 6}


def sweep(lab: Lab, grid: dict[str, list[Any]], **fixed: Any) -> list[dict[str, Any]]:
    answer = lab.json("sweep", lab.sweep_file(experiment="loading", grid=grid, fixed=SMALL | fixed), "--wait")
    assert set(answer["runs"]) == {"ok"}, answer
    runs: list[dict[str, Any]] = lab.json("runs", "--sweep", answer["sweep_id"])["runs"]
    return runs


def test_every_format_and_way_of_fetching_runs_and_says_what_took_effect(lab: Lab, images: Path) -> None:
    runs = sweep(lab, {"format": ["jpeg", "tensor_files", "memmap"], "decoder": ["pil", "torchvision"],
                       "workers": [0, 2]}, fetch_threads=9, prefetch_factor=3, persistent_workers=True, pin_memory=True)
    assert len(runs) == 12
    for run in runs:
        asked, effective = run["params"], run["effective"]
        assert run["phases"]["load_data"]["count"] == run["metrics"]["batches"] == 6
        assert run["metrics"]["items"] == 24 and "consume" not in run["phases"]
        assert effective["decoder"] == (asked["decoder"] if asked["format"] == "jpeg" else "none")
        assert effective["fetch_threads"] == 4, "no more than there are items in a batch"
        assert effective["prefetch_factor"] == (3 if asked["workers"] else None)
        assert effective["persistent_workers"] is bool(asked["workers"])
        assert effective["batches_per_epoch"] == 6


def test_latency_and_consumer_take_the_time_they_are_given(lab: Lab, images: Path) -> None:
    """Sleeps only: what is injected is the least that must be seen."""
    (run,) = sweep(lab, {"workers": [0]}, latency_s=0.02, consume_s=0.05, format="memmap")
    assert run["phases"]["load_data"]["median_s"] >= 4 * 0.02
    assert run["phases"]["consume"]["median_s"] >= 0.05
    assert run["metrics"]["end_to_end_s"] >= 6 * (4 * 0.02 + 0.05)


def waits(lab: Lab, run_id: str) -> list[float]:
    file = lab.home.root.parent / "phases.csv"
    lab.call("export", run_id.rpartition("-")[0].rpartition("-")[0], "--format", "csv", "--table", "phases", "--out",
             str(file))
    with file.open(newline="") as stream:
        rows = [row for row in csv.DictReader(stream) if row["run_id"] == run_id and row["phase"] == "load_data"]
    return [float(row["seconds"]) for row in sorted(rows, key=lambda row: int(row["batch"]))]


def test_every_epoch_is_measured_and_the_steady_state_is_of_the_first(lab: Lab, images: Path) -> None:
    runs = sweep(lab, {"persistent_workers": [False, True]}, workers=2, epochs=3, batches=9)
    for run in runs:
        assert run["metrics"]["batches"] == 27 and run["metrics"]["items"] == 27 * 4
        assert run["metrics"]["steady_batches"] == 9 - 2 - 2 * 2
        assert len(waits(lab, run["run_id"])) == 27


def test_a_folder_with_png_is_refused_before_anything_starts(lab: Lab, tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / "set" / name).mkdir(parents=True)
        Image.new("RGB", (40, 40)).save(tmp_path / "set" / name / "x.png")
    file = lab.sweep_file(experiment="loading", grid={"decoder": ["torchvision"]},
                          fixed={"data": str(tmp_path / "set")})
    code, out, _ = lab.call("sweep", file, "--wait", "--json")
    assert code == 2 and "use decoder=pil" in json.loads(out)["error"]
    assert lab.home.sweep_ids() == []


def test_more_items_than_the_disk_can_hold_are_refused_before_anything_starts(lab: Lab) -> None:
    file = lab.sweep_file(experiment="loading", grid={"format": ["memmap"]},
                          fixed={"image_size": 2048, "images": 100_000_000})
    code, out, _ = lab.call("sweep", file, "--wait", "--json")
    assert code == 2 and "PHASELAB_HOME" in json.loads(out)["error"]


def test_inference_reads_preprocessed_items_too(lab: Lab, images: Path) -> None:
    answer = lab.json("sweep", lab.sweep_file(experiment="inference", grid={"format": ["tensor_files", "memmap"]},
                                              fixed=SMALL | {"workers": 1, "model": "mobilenet_v2", "threads": 1}),
                      "--wait")
    assert answer["runs"] == {"ok": 2}


def test_a_preprocessed_set_that_was_harmed_is_built_again_by_the_next_sweep(lab: Lab, images: Path) -> None:
    sweep(lab, {"format": ["memmap"]}, image_size=40)
    (data,) = lab.home.cache.glob("preprocessed-v1/*-40px-memmap-*/data-*")
    data.write_bytes(b"half")
    sweep(lab, {"format": ["memmap"]}, image_size=40)
    assert not data.exists()


def test_old_cells_of_inference_keep_their_keys() -> None:
    from engine.experiments.inference import Params
    from engine.params import cell_key

    assert cell_key("inference", Params()) == cell_key("inference", Params(format="jpeg")) == "7e2795ae0001c118"
