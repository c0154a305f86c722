"""Training methods from an empty lab: the page leads to its preset, which is launched, watched and read."""

from __future__ import annotations

import csv
import re
from collections import Counter
from pathlib import Path

import pytest
from browser.conftest import Visit
from browser.driven_app import App
from browser.windows import LaunchPage, LivePage, RunsPage, settled
from playwright.sync_api import expect

RUNS, SKIPPED = 12, 8
PROFILED = {"experiment": "memory", "grid": {"profile": [True]},
            "fixed": {"batch_size": 2, "image_size": 32, "batches": 1, "threads": 1}}


def seconds_per_epoch(app: App, sweep_id: str) -> dict[tuple[str, str, str], float]:
    """By method, devices and batch size, from the raw rows of the runs that could run here."""
    out: Path = app.folder / "runs.csv"
    app.lab.json("export", sweep_id, "--format", "csv", "--table", "runs", "--out", str(out))
    with out.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert Counter(row["status"] for row in rows) == {"ok": RUNS, "skipped": SKIPPED}
    return {(row["method"], row["devices"], row["batch_size"]): float(row["actual_epoch_s"]) for row in rows
            if row["status"] == "ok"}


@pytest.mark.timeout(1200)
def test_the_small_preset_from_the_empty_page_to_its_figures(app: App, visit: Visit) -> None:
    page = visit()
    page.goto(f"{app.url}/Training")
    settled(page, "Training")
    expect(page.get_by_text("Published by seed 002")).to_be_visible()
    page.get_by_role("main").get_by_role("link", name="Launch the training methods").click()
    launch = LaunchPage(page)
    settled(page, "Launch")
    expect(launch.name).to_have_value("seed 002: training trade-offs, small")
    launch.launch.click()
    live = LivePage(page).arrived()
    sweep_id = live.sweep_id
    live.finished(RUNS + SKIPPED)

    page.goto(f"{app.url}/Training?sweep={sweep_id}")
    settled(page, "Training")
    took = seconds_per_epoch(app, sweep_id)
    plain_s = {size: took.pop(("baseline", "1", size)) for size in ("8", "16")}
    ratio = min(epoch_s / plain_s[size] for (_, _, size), epoch_s in took.items())
    expect(page.get_by_text(re.compile(rf"{ratio:.2f} \(no interval: too few runs\) times that of plain "))
           ).to_be_visible()
    # Global batches of 8: four methods on one device. Of 16: the same, with ddp and fsdp on two devices. Of 32: these.
    pairs = 6 + 15 + 1
    expect(page.get_by_text(re.compile(f"Of {pairs} pairs of methods with the same global batches, {pairs} have"))
           ).to_be_visible()
    expect(page.get_by_text("needs 2 CUDA devices and this machine has 0")).to_be_visible()
    expect(LivePage(page).charts).to_have_count(4)

    app.lab.json("sweep", app.lab.sweep_file(**PROFILED), "--wait")
    run_id = next(run["run_id"] for run in app.lab.json("runs")["runs"] if run["experiment"] == "memory")
    page.goto(f"{app.url}/Runs?run={run_id}&tab=Operators")
    assert RunsPage(page).opened() == run_id
    expect(page.get_by_text("takes the most time of its own")).to_be_visible()
    page.get_by_role("tab", name="Files").click()
    with page.expect_download() as kept:
        page.get_by_role("button", name=re.compile("TensorBoard folder")).click()
    assert kept.value.suggested_filename == "tensorboard.zip"
