"""Fine-tuning and extraction of three models at two sizes, three repeats, launched from the browser: the speed-ups on
the page are worked out again from the raw rows."""

from __future__ import annotations

import csv
import math
from collections import defaultdict
from statistics import fmean, stdev
from typing import Any

import pytest
from browser.conftest import Visit
from browser.driven_app import App
from browser.windows import LaunchPage, LivePage, settled
from playwright.sync_api import expect
from scipy.stats import t as student

from ui.units import seconds

GRID = {"model": ["resnet18", "mobilenet_v2", "resnet34"], "train_images": [16, 32]}
FIXED = {"image_size": 32, "batch_size": 16, "workers": 0, "threads": 1}
RUNS = 3 * 2 * 3
Times = dict[tuple[str, int], list[float]]


def launch(app: App, page: Any, experiment: str, **fixed: Any) -> str:
    launch = LaunchPage(page).open(app.url, experiment)
    launch.fill(experiment=experiment, name=f"tiny {experiment}", repeats=3, grid=GRID, fixed={**FIXED, **fixed})
    launch.launch.click()
    live = LivePage(page).arrived()
    live.finished(RUNS)
    return live.sweep_id


def raw_times(app: App, sweep_id: str, column: str) -> Times:
    out = app.folder / f"{sweep_id}.csv"
    app.lab.json("export", sweep_id, "--format", "csv", "--table", "runs", "--out", str(out))
    times: Times = defaultdict(list)
    with out.open(newline="") as file:
        for run in csv.DictReader(file):
            assert run["status"] == "ok"
            times[run["model"], int(run["train_images"])].append(float(run[column]))
    return times


@pytest.mark.timeout(900)
def test_speed_ups_agree_with_the_raw_rows(app: App, visit: Visit) -> None:
    page = visit()
    tuned = launch(app, page, "finetune", epochs=1)
    extracted = launch(app, page, "extract")
    page.goto(f"{app.url}/Model_search?sweeps={tuned},{extracted}")
    settled(page, "Model search")
    expect(page.get_by_role("main").get_by_text("Fine-tuning takes")).to_contain_text("3 models, 2 sizes")
    shown = {}
    table = page.get_by_test_id("stDataFrame").first
    table.scroll_into_view_if_needed()
    expect(table.locator("canvas table tbody tr")).to_have_count(6)
    for row in table.locator("canvas table tbody tr").all():  # what screen readers get
        name, *figures = row.locator("td").all_text_contents()
        model, images = name.removesuffix(" (noisy)").split(", ")[:2]
        shown[model, int(images.removesuffix(" images"))] = figures

    slow, quick = raw_times(app, tuned, "finetune_s"), raw_times(app, extracted, "end_to_end_s")
    assert len(slow) == len(quick) == len(shown) == 6
    for model, train in slow:
        a, b = ([math.log(value) for value in times[model, train]] for times in (slow, quick))
        assert len(a) == len(b) == 3
        shares = [stdev(group) ** 2 / 3 for group in (a, b)]
        freedom = sum(shares) ** 2 / sum(share**2 / 2 for share in shares)
        half = float(student.ppf(0.975, freedom)) * math.sqrt(sum(shares))
        middle = fmean(a) - fmean(b)
        ratio, low, high, long, short = (math.exp(value) for value in (
            middle, middle - half, middle + half, fmean(a), fmean(b)))
        assert shown[model, train + train // 4] == [
            f"{ratio:.1f}", f"{low:.1f} to {high:.1f}", seconds(long), seconds(short), "3 and 3"]

    # The link opens the same for someone else, and a view is in it.
    page.get_by_role("radio", name="End to end").click()
    expect(page.get_by_role("main").get_by_text("With more models than this")).to_contain_text("22 in S1, 125 in S2")
    other = visit()
    other.goto(page.url)
    settled(other, "Model search")
    expect(other.get_by_role("main").get_by_text("With more models than this")).to_have_text(
        page.get_by_role("main").get_by_text("With more models than this").inner_text())
