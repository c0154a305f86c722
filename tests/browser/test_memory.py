"""A tiny memory sweep launched from the browser, watched, and read on the Memory page against the raw rows."""

from __future__ import annotations

import re

import pytest
from browser.conftest import Visit
from browser.driven_app import App
from browser.windows import LaunchPage, LivePage, settled
from playwright.sync_api import expect

from ui.units import size

SWEEP = {"experiment": "memory", "name": "tiny memory", "repeats": 1,
         "grid": {"model": ["revnet_3", "revnet_5"], "method": ["plain", "reversible"]},
         "fixed": {"batch_size": 2, "image_size": 32, "batches": 2, "threads": 1}}
RUNS = 4


@pytest.mark.timeout(900)
def test_launched_watched_and_read(app: App, visit: Visit) -> None:
    launch = LaunchPage(visit()).open(app.url, "memory")
    launch.fill(**SWEEP)
    page = launch.page
    page.get_by_role("button", name="Predict its memory").click()
    expect(page.get_by_text(re.compile(r"needs about [\d.]+ MiB, this machine has [\d.]+ GiB"))).to_be_visible()
    settled(page, "Launch")
    launch.launch.click()
    live = LivePage(page).arrived()
    live.finished(RUNS)

    runs = {(run["params"]["model"], run["params"]["method"]): run["metrics"]
            for run in app.lab.json("runs", "--sweep", live.sweep_id)["runs"]}
    assert len(runs) == RUNS
    page.goto(f"{app.url}/Memory?sweeps={live.sweep_id}")
    settled(page, "Memory")
    main = page.get_by_role("main")
    saved = {key: metrics["saved_activations_bytes"] for key, metrics in runs.items()}
    flat = [saved["revnet_3", "reversible"], saved["revnet_5", "reversible"]]
    expect(main).to_contain_text(f"stay within {max(flat) / min(flat) - 1:.1%} from revnet_3 to revnet_5")
    grown = saved["revnet_5", "plain"] / saved["revnet_3", "plain"]
    expect(main).to_contain_text(f"grow {grown:.1f}-fold")
    ratio = runs["revnet_5", "reversible"]["peak_memory_bytes"] / runs["revnet_5", "plain"]["peak_memory_bytes"]
    expect(main).to_contain_text(f"Reversible lowers the peak of revnet_5 to {ratio:.2f} times plain's")
    expect(page.locator("[data-testid=stVegaLiteChart]").locator("canvas, svg").first).to_be_visible()
    expect(main).to_contain_text(f"peak at {size(runs['revnet_3', 'plain']['tensor_peak_bytes'])}")

    page.get_by_role("tab", name="Depth").click()
    expect(main).to_contain_text("Published: seed 003")
    expect(page).to_have_url(re.compile(r"view=Depth"))
    settled(page, "Memory")
    page.get_by_role("tab", name="Predicted and measured").click()
    within = sum(abs(metrics["prediction_error"]) <= 0.1 for metrics in runs.values())
    expect(main).to_contain_text(f"{within} of {RUNS} predictions are within 10 %")
