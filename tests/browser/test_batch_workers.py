"""A grid of batch size x workers, both data settings, three repeats, measured from the browser: what the page then says
is worked out again from the raw rows."""

from __future__ import annotations

import csv
import math
import re
from collections import defaultdict
from statistics import fmean, median, stdev

import pytest
from browser.conftest import Visit
from browser.driven_app import App
from browser.windows import LaunchPage, LivePage, settled
from playwright.sync_api import Page, expect
from scipy.stats import t as student

from ui.units import seconds

SWEEP = {"experiment": "inference", "name": "tiny grid", "repeats": 3,
         "grid": {"format": ["jpeg", "tensor_files"], "batch_size": [4, 8], "workers": [1, 2]},
         "fixed": {"model": "resnet18", "data": "generated", "image_size": 32, "images": 64, "threads": 1}}
RUNS = 2 * 2 * 2 * 3
Pair = tuple[int, int]


def raw_rows(app: App, sweep_id: str, table: str) -> list[dict[str, str]]:
    out = app.folder / f"{table}.csv"
    app.lab.json("export", sweep_id, "--format", "csv", "--table", table, "--out", str(out))
    with out.open(newline="") as file:
        return list(csv.DictReader(file))


def cell(text: str) -> Pair:
    batch, workers = text.split("/")
    return int(batch), int(workers)


def half_width(groups: list[list[float]], level: float) -> float:
    """Half of Welch's interval, for one group of logarithms or the difference of two."""
    shares = [stdev(group) ** 2 / len(group) for group in groups]
    freedom = sum(shares) ** 2 / sum(share**2 / (len(group) - 1) for share, group in zip(shares, groups, strict=True))
    return float(student.ppf(0.5 + level / 2, freedom)) * math.sqrt(sum(shares))


def limits_of(run: dict[str, str], phases: dict[str, list[float]]) -> dict[str, float]:
    """Shares of a run's time, from its raw phases: the first wait is start-up, the later ones are loading."""
    whole, waits = float(run["end_to_end_s"]), phases["load_data"]
    shares = {"start-up": waits[0] / whole, "loading": sum(waits[1:]) / whole,
              "transfer": sum(phases["data_to_device"]) / whole, "compute": sum(phases["inference"]) / whole}
    return {**shares, "other work": 1 - sum(shares.values())}


def text_of(page: Page, format: str) -> str:
    """What the box of one format says."""
    box = page.locator(f".st-key-recommended_{format}")
    expect(box).to_contain_text("fastest for resnet18")
    return box.inner_text()


@pytest.mark.timeout(900)
def test_the_page_agrees_with_the_raw_rows(app: App, visit: Visit) -> None:
    launch = LaunchPage(visit()).open(app.url, "inference")
    launch.fill(**SWEEP)
    launch.launch.click()
    live = LivePage(launch.page).arrived()
    live.finished(RUNS)
    sweep_id = live.sweep_id
    page = live.page
    page.goto(f"{app.url}/Batch_and_workers?sweeps={sweep_id}&view=What+limits+it")
    settled(page, "Batch & workers")

    runs = raw_rows(app, sweep_id, "runs")
    assert len(runs) == RUNS and {run["status"] for run in runs} == {"ok"}
    phases: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for row in sorted(raw_rows(app, sweep_id, "phases"), key=lambda row: int(row["batch"])):
        phases[row["run_id"]][row["phase"]].append(float(row["seconds"]))
    told = app.lab.json("regret", sweep_id)["cells"]

    for format in ("jpeg", "tensor_files"):
        mine = [run for run in runs if run["format"] == format]
        times: dict[Pair, list[float]] = defaultdict(list)
        for run in mine:
            times[int(run["batch_size"]), int(run["workers"])].append(float(run["end_to_end_s"]))
        assert {len(values) for values in times.values()} == {3}
        middle = {pair: median(values) for pair, values in times.items()}
        best = min(middle, key=lambda pair: middle[pair])
        regrets = {(row["batch_size"], row["workers"]): row["mean_regret"] for row in told
                   if row["setting"]["format"] == format}
        assert regrets == pytest.approx({pair: value / middle[best] - 1 for pair, value in middle.items()})

        said = text_of(page, format)
        logs = {pair: [math.log(value) for value in values] for pair, values in times.items()}
        half = half_width([logs[best]], 0.95)
        low, high = (seconds(math.exp(fmean(logs[best]) + part)) for part in (-half, half))
        apart = {pair: fmean(logs[pair]) - fmean(logs[best]) for pair in times if pair != best}
        widths = {pair: half_width([logs[pair], logs[best]], 1 - 0.05 / 3) for pair in apart}
        slower = {pair for pair in apart if apart[pair] > widths[pair]}
        verb = "is" if slower else "comes out"
        assert (f"{best[0]}/{best[1]} {verb} fastest for resnet18: median {seconds(middle[best])} (95 % interval {low} "
                f"to {high}, 3 runs)" in said)
        named = re.search(r"([\d/, and]+) cannot be told apart", said)
        tied = {cell(text) for text in re.findall(r"\d+/\d+", named[1])} if named else set()
        assert tied == {pair for pair in apart if abs(apart[pair]) <= widths[pair]}

        shares = [limits_of(run, phases[run["run_id"]]) for run in mine
                  if (int(run["batch_size"]), int(run["workers"])) == best]
        typical = {name: median(share[name] for share in shares) for name in shares[0]}
        limit = max(typical, key=lambda name: typical[name])
        assert f"for resnet18 by {limit} ({typical[limit]:.0%} of its time)" in said
