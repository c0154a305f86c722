"""The small memory presets launched from the browser, watched, and read on the Memory page against the raw rows."""

from __future__ import annotations

import re
from typing import Any

import pytest
from browser.conftest import Visit
from browser.driven_app import App
from browser.windows import LaunchPage, LivePage, settled
from playwright.sync_api import Page, expect

from ui.units import size

DEPTHS = ("revnet_3", "revnet_9", "revnet_18")
RESNETS = ("adjusted_resnet18", "adjusted_resnet34")


def launch(app: App, page: Page, name: str, runs: int,
           skipped: int = 0) -> tuple[str, dict[tuple[str, str], dict[str, Any]]]:
    """The form as the preset filled it; returns the sweep and its metrics by model and method."""
    form = LaunchPage(page)
    settled(page, "Launch")
    expect(form.name).to_have_value(name)
    form.launch.click()
    live = LivePage(page).arrived()
    sweep_id = live.sweep_id
    live.finished(runs + skipped)
    found = {(run["params"]["model"], run["params"]["method"]): run["metrics"]
             for run in app.lab.json("runs", "--sweep", sweep_id)["runs"] if run["status"] == "ok"}
    assert len(found) == runs
    page.goto(f"{app.url}/Memory?sweeps={sweep_id}")
    settled(page, "Memory")
    return sweep_id, found


@pytest.mark.timeout(1800)
def test_the_small_presets_launched_watched_and_read(app: App, visit: Visit) -> None:
    page = visit()
    page.goto(f"{app.url}/Memory")
    settled(page, "Memory")
    page.get_by_role("main").get_by_role("link", name="Launch the small RevNets").click()
    settled(page, "Launch")
    page.get_by_role("button", name="Predict its memory").click()
    expect(page.get_by_text(re.compile(r"needs about [\d.]+ MiB, this machine has [\d.]+ GiB"))).to_be_visible()
    _, runs = launch(app, page, "seed 003: memory of RevNets and ResNets, small", 2 * len(DEPTHS) + len(RESNETS),
                     skipped=len(RESNETS))

    main = page.get_by_role("main")
    saved = {key: metrics["saved_activations_bytes"] for key, metrics in runs.items()}
    flat = [saved[model, "reversible"] for model in DEPTHS]
    assert max(flat) / min(flat) < 1.05
    expect(main).to_contain_text(f"stay within {max(flat) / min(flat) - 1:.1%} from revnet_3 to revnet_18")
    grown = saved["revnet_18", "plain"] / saved["revnet_3", "plain"]
    assert 4.5 < grown < 6.5
    expect(main).to_contain_text(f"grow {grown:.1f}-fold")
    deeper = saved["adjusted_resnet34", "plain"] / saved["adjusted_resnet18", "plain"]
    expect(main).to_contain_text(f"Adjusted ResNet's saved activations grow {deeper:.1f}-fold with plain training")
    expect(main).to_contain_text(f"Not shown here: {len(RESNETS)} skipped")
    ratio = runs["revnet_18", "reversible"]["peak_memory_bytes"] / runs["revnet_18", "plain"]["peak_memory_bytes"]
    expect(main).to_contain_text(f"Reversible lowers the peak of revnet_18 to {ratio:.2f} times plain's")
    expect(page.locator("[data-testid=stVegaLiteChart]").locator("canvas, svg").first).to_be_visible()
    expect(main).to_contain_text(f"peak at {size(runs['adjusted_resnet18', 'plain']['tensor_peak_bytes'])}")

    page.get_by_role("tab", name="Depth").click()
    expect(main).to_contain_text("Published: seed 003")
    expect(page).to_have_url(re.compile(r"view=Depth"))
    settled(page, "Memory")
    page.get_by_role("tab", name="Predicted and measured").click()
    within = sum(abs(metrics["prediction_error"]) <= 0.1 for metrics in runs.values())
    expect(main).to_contain_text(f"{within} of {len(runs)} predictions are within 10 %")

    page.goto(f"{app.url}/Launch?preset=seed-002-memory-small")
    _, runs = launch(app, page, "seed 002: checkpointing resnet18, small", 3)
    ratio = runs["resnet18", "checkpoint"]["peak_memory_bytes"] / runs["resnet18", "plain"]["peak_memory_bytes"]
    assert ratio < 0.9
    expect(main).to_contain_text(f"Checkpoint lowers the peak of resnet18 to {ratio:.2f} times plain's")
    page.get_by_role("tab", name="Memory against time").click()
    expect(main).to_contain_text("On the front of resnet18")
