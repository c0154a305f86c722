"""Training methods from an empty lab: the page leads to its preset, a tiny sweep is launched, watched and read."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import pytest
from browser.conftest import Visit
from browser.driven_app import App
from browser.windows import LaunchPage, LivePage, RunsPage, settled
from playwright.sync_api import expect

SWEEP = {"experiment": "training", "name": "tiny training", "grid": {"method": ["baseline", "checkpointing", "ddp"]},
         "fixed": {"data": "generated", "norm": "group", "image_size": 32, "batch_size": 8, "train_images": 32,
                   "val_images": 8, "workers": 0, "threads": 1, "profile": True}}


def seconds_per_epoch(app: App, sweep_id: str) -> dict[str, float]:
    """By method, from the raw rows."""
    out: Path = app.folder / "runs.csv"
    app.lab.json("export", sweep_id, "--format", "csv", "--table", "runs", "--out", str(out))
    with out.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert {row["status"] for row in rows} == {"ok"}
    return {row["method"]: float(row["actual_epoch_s"]) for row in rows}


@pytest.mark.timeout(600)
def test_a_tiny_training_sweep_from_the_empty_page_to_its_figures(app: App, visit: Visit) -> None:
    page = visit()
    page.goto(f"{app.url}/Training")
    settled(page, "Training")
    expect(page.get_by_text("Published by seed 002")).to_be_visible()
    page.get_by_role("main").get_by_role("link", name="Launch the training methods").click()
    launch = LaunchPage(page)
    settled(page, "Launch")
    expect(launch.name).to_have_value("seed 002: training trade-offs, small")
    launch.fill(**SWEEP)
    launch.launch.click()
    live = LivePage(page).arrived()
    live.finished(3)
    sweep_id = live.sweep_id

    page.goto(f"{app.url}/Training?sweep={sweep_id}")
    settled(page, "Training")
    took = seconds_per_epoch(app, sweep_id)
    ratio = min(took["checkpointing"], took["ddp"]) / took["baseline"]
    expect(page.get_by_text(re.compile(rf"{ratio:.2f} \(no interval: too few runs\) times that of plain "))
           ).to_be_visible()
    expect(page.get_by_text(re.compile("Of 1 pair of methods with the same global batches, 1 have"))).to_be_visible()
    expect(LivePage(page).charts).to_have_count(3)

    run_id = next(run["run_id"] for run in app.lab.json("runs")["runs"] if run["params"]["method"] == "ddp")
    page.goto(f"{app.url}/Runs?run={run_id}&tab=Operators")
    assert RunsPage(page).opened() == run_id
    expect(page.get_by_text("takes the most time of its own")).to_be_visible()
    page.get_by_role("tab", name="Files").click()
    with page.expect_download() as kept:
        page.get_by_role("button", name=re.compile("TensorBoard folder")).click()
    assert kept.value.suggested_filename == "tensorboard.zip"
