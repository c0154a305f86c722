"""The Training page on real tiny runs: what it says equals the raw rows, recomputed here by hand."""

from __future__ import annotations

import shutil
from pathlib import Path
from statistics import median
from typing import Any

import pytest
from drawn_page import assert_replayed, draw
from driven_lab import Lab
from streamlit.testing.v1 import AppTest

from engine.people import annotate
from store.database import Store
from tests.store.journal_builder import Script
from ui.replay import replay
from ui.units import seconds

PAGE = "pages/Training.py"
TINY = {"norm": "group", "image_size": 32, "train_images": 48, "val_images": 8, "workers": 0, "threads": 1,
        "batch_size": 8}


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory, image_cache: Path) -> Path:
    lab = Lab.at(tmp_path_factory.mktemp("training"))
    lab.home.root.mkdir(parents=True)
    lab.home.cache.symlink_to(image_cache)
    for name, grid in (("methods", {"method": ["baseline", "dp", "ddp"], "devices": [1, 2]}),
                       ("nothing", {"method": ["dp"]})):
        lab.json("sweep", lab.sweep_file(experiment="training", name=name, grid=grid, fixed=TINY), "--wait",
                 expect=(0, 1))
    return lab.home.root


@pytest.fixture
def filled(lab: Lab, measured: Path) -> Lab:
    shutil.copytree(measured, lab.home.root, symlinks=True)
    return lab


def open_page(lab: Lab, name: str) -> AppTest:
    return draw(PAGE, sweep=next(s["sweep_id"] for s in lab.json("sweeps")["sweeps"] if s["name"] == name))


def text(page: AppTest) -> str:
    parts = [part.value for kind in (page.markdown, page.caption) for part in kind]
    return " ".join(parts).replace("\\", "").replace("**", "")


class Cell:
    """One run, its numbers taken from the rows."""

    def __init__(self, lab: Lab, method: str, devices: int) -> None:
        run: dict[str, Any] = next(run for run in lab.json("runs")["runs"] if run["status"] == "ok" and
                                   (run["params"]["method"], run["params"]["devices"]) == (method, devices))
        with Store.open(lab.home) as store:
            batches = store.connection.execute("SELECT items, seconds FROM batches WHERE run_id = ?",
                                               [run["run_id"]]).fetchall()
            self.losses = [loss for (loss,) in store.connection.execute(
                "SELECT value FROM samples WHERE run_id = ? AND device = 'training' ORDER BY time_s",
                [run["run_id"]]).fetchall()]
            stages = store.connection.execute(
                """SELECT CASE stage WHEN 'measure' THEN 'start' ELSE stage END,
                          CASE stage WHEN 'measure' THEN start_s ELSE seconds END FROM stages WHERE run_id = ?""",
                [run["run_id"]]).fetchall()
        assert {items for items, _ in batches} == {8 * devices}
        self.batch_s = median(took for _, took in batches)
        self.estimated_s = 48 / (8 * devices) * self.batch_s
        self.actual_s = run["metrics"]["actual_epoch_s"]
        self.image_s = self.actual_s / sum(items for items, _ in batches)
        self.start_up_s, self.validation_s = (dict(stages)[name] for name in ("start", "validate"))


def test_a_board_shows_what_the_page_shows(filled: Lab) -> None:
    sweeps = {sweep["name"]: sweep["sweep_id"] for sweep in filled.json("sweeps")["sweeps"]}
    assert len(assert_replayed("Training", sweep=sweeps["methods"]).figures) >= 3


def test_the_page_says_what_the_rows_say(filled: Lab) -> None:
    plain, one, two = Cell(filled, "baseline", 1), Cell(filled, "ddp", 1), Cell(filled, "ddp", 2)
    page = open_page(filled, "methods")
    table = page.dataframe[0].value.set_index("Method")
    assert list(table.index) == ["baseline, 1 device", "ddp, 1 device", "ddp, 2 devices"]
    for name, cell in zip(table.index, (plain, one, two), strict=True):
        row = table.loc[name]
        assert row["Time per image"] == seconds(cell.image_s) and row["Time per batch"] == seconds(cell.batch_s)
        assert row["Estimated epoch"] == seconds(cell.estimated_s)
        assert row["Actual epoch"] == seconds(cell.actual_s)
        assert row["Start-up"] == seconds(cell.start_up_s) and row["Validation"] == seconds(cell.validation_s)
        assert row["Times plain's"] == ("plain" if cell is plain else
                                   f"{cell.image_s / plain.image_s:.2f} (no interval: too few runs)")
    assert list(table["Global batch"]) == ["8", "8", "16"]
    said = text(page)
    best = min((one, two), key=lambda cell: cell.image_s)
    assert f"{best.image_s / plain.image_s:.2f} (no interval: too few runs) times that of plain training" in said
    efficiency = one.batch_s / two.batch_s
    assert f"2 devices train {2 * efficiency:.2f} times as many images per second as one" in said
    assert f"an efficiency of {efficiency:.2f}" in said
    ratios = [cell.actual_s / cell.estimated_s for cell in (plain, one, two)]
    low, high = f"{min(ratios):.2f}", f"{max(ratios):.2f}"
    assert f"take {low if low == high else f'{low} to {high}'} times their estimates" in said
    assert plain.losses == pytest.approx(one.losses, rel=1e-4)
    assert "Of 1 pair of methods with the same global batches, 1 have the same curve" in said
    assert "method=dp: needs 2 CUDA devices" in said and "baseline: trains on one device, not on 2" in said


def test_the_published_table_has_global_batches_and_ratios_per_image(filled: Lab) -> None:
    page = open_page(filled, "methods")
    published = page.dataframe[1].value.set_index("Method")
    assert list(published["Global batch"]) == ["512", "1,500", "2,500", "3,000"]
    assert list(published["Batch per device"]) == ["512", "1,500", "1,250", "1,500"]
    assert list(published["Times plain's"]) == ["plain", *(f"{actual / 187:.2f}" for actual in (125, 127, 96))]
    caveats = dict(line.removeprefix("- ").split(": ", 1) for line in text(page).splitlines() if line.startswith("- "))
    assert set(caveats) == {"checkpointing", "dp", "ddp"}
    assert caveats["checkpointing"] == "trained only its last layer."
    assert caveats["dp"].startswith("probably checkpointed: its table says not")
    assert caveats["ddp"].startswith("checkpointed: its script does so by default")
    assert all("checkpointed model trained only its last layer" in caveats[method] for method in ("dp", "ddp"))


def test_a_published_ratio_has_its_caveat_wherever_the_chart_goes(filled: Lab) -> None:
    sweeps = {sweep["name"]: sweep["sweep_id"] for sweep in filled.json("sweeps")["sweeps"]}
    rows = replay("Training", {"sweep": sweeps["methods"]}, "training_methods").figures[0].rows.set_index("cell")
    assert "last layer" in rows.loc["ddp, 2 devices (seed 002)", "verdict"]


def test_an_archived_sweep_is_offered_only_where_the_link_asks_for_it(filled: Lab) -> None:
    archived = next(s["sweep_id"] for s in filled.json("sweeps")["sweeps"] if s["name"] == "methods")
    annotate(filled.home, [archived], "archive")
    (box,) = [box for box in draw(PAGE).selectbox if box.label == "Sweep"]
    assert [option.partition(" · ")[0] for option in box.options] == ["nothing"]
    assert "Methods against plain training" in [part.value for part in draw(PAGE, sweep=archived).subheader]


def test_without_a_finished_run_the_published_figures_are_there(filled: Lab) -> None:
    page = open_page(filled, "nothing")
    assert "no finished run" in text(page) and len(page.dataframe) == 1


def test_an_empty_lab_offers_the_small_preset(lab: Lab) -> None:
    page = draw(PAGE)
    assert "Nothing has been trained yet" in text(page) and len(page.dataframe) == 1


def test_a_sweep_of_two_environments_says_why_there_is_no_ratio(lab: Lab) -> None:
    script = Script(lab.home, experiment="training")
    for cell, method in enumerate(("baseline", "checkpointing")):
        script.begin(planned_runs=2, environment_id=f"torch-{cell}")
        script.run(cell, asked={"seed": 0, "method": method}, metrics={"actual_epoch_s": 1.0 + cell},
                   effective={"devices": 1, "batch_size": 8, "global_batch_size": 8, "train_images": 32})
    script.end().write()
    page = draw(PAGE, sweep=script.sweep_id)
    assert "measured in 2 environments" in page.warning[0].value
    assert "Nothing is compared with plain training: plain training ran in another environment." in text(page)
    assert list(page.dataframe[0].value["Method"]) == ["baseline, 1 device, environment torch-0",
                                                       "checkpointing, 1 device, environment torch-1"]
