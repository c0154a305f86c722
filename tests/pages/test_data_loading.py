"""The Data loading page on real small sweeps: what it says equals the raw rows, recomputed here by hand."""

from __future__ import annotations

import math
import re
import shutil
from pathlib import Path
from statistics import fmean, median, variance
from typing import Any

import pytest
from drawn_page import assert_replayed, draw, no_exception
from driven_lab import Lab
from scipy import stats
from streamlit.testing.v1 import AppTest

from engine.importing import import_content
from store.loading import loading_sweeps
from tests.store.journal_builder import Script, annotate

PAGE = "pages/Data_loading.py"
SMALL = {"image_size": 32, "batch_size": 4, "batches": 12, "format": "memmap", "threads": 1}


def sweep(lab: Lab, name: str, grid: dict[str, list[Any]], repeats: int = 3, **fixed: Any) -> str:
    answer = lab.json("sweep", lab.sweep_file(experiment="loading", name=name, grid=grid, repeats=repeats,
                                              fixed=SMALL | fixed), "--wait")
    assert set(answer["runs"]) == {"ok"}, answer
    return str(answer["sweep_id"])


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory, image_cache: Path) -> Path:
    """One lab with every sweep that the tests look at."""
    lab = Lab.at(tmp_path_factory.mktemp("loading"))
    lab.home.root.mkdir(parents=True)
    lab.home.cache.symlink_to(image_cache)
    sweep(lab, "latency", {"latency_s": [0.0, 0.02], "fetch_threads": [1, 8]}, workers=2, batch_size=8, batches=30)
    sweep(lab, "no latency", {"fetch_threads": [1, 4]}, workers=0)
    sweep(lab, "consumers", {"consume_s": [0.0, 0.2]}, workers=2, latency_s=0.005, repeats=2)
    sweep(lab, "one run", {"workers": [0]}, repeats=1)
    return lab.home.root


@pytest.fixture
def filled(lab: Lab, measured: Path) -> Lab:
    shutil.copytree(measured, lab.home.root, symlinks=True)
    return lab


def sweep_id_of(lab: Lab, name: str) -> str:
    return next(s["sweep_id"] for s in lab.json("sweeps")["sweeps"] if s["name"] == name)


def text(page: AppTest) -> str:
    return " ".join(part.value for part in page.markdown).replace("\\", "")


def open_page(lab: Lab, name: str, **query: str) -> AppTest:
    return draw(PAGE, sweep=sweep_id_of(lab, name), **query)


def rates(lab: Lab, name: str, **params: Any) -> list[float]:
    """Items per second of each run of a cell, from the raw rows of the command line."""
    runs = lab.json("runs", "--sweep", sweep_id_of(lab, name))["runs"]
    return [run["metrics"]["items"] / run["metrics"]["end_to_end_s"] for run in runs
            if all(run["params"][key] == value for key, value in params.items())]


def welch(a: list[float], b: list[float]) -> tuple[float, float, float]:
    """The ratio of geometric means and its 95 % interval, written out."""
    la, lb = [math.log(x) for x in a], [math.log(x) for x in b]
    va, vb = variance(la) / len(la), variance(lb) / len(lb)
    freedom = (va + vb) ** 2 / (va**2 / (len(la) - 1) + vb**2 / (len(lb) - 1))
    half = float(stats.t.ppf(0.975, freedom)) * math.sqrt(va + vb)
    centre = fmean(la) - fmean(lb)
    return math.exp(centre), math.exp(centre - half), math.exp(centre + half)


def as_shown(a: list[float], b: list[float]) -> str:
    return "{:.2f} times [{:.2f}, {:.2f}]".format(*welch(a, b))


def test_a_board_shows_what_the_page_shows(filled: Lab) -> None:
    assert len(assert_replayed("Data loading", sweep=sweep_id_of(filled, "latency")).figures) >= 2


def test_with_latency_concurrent_fetch_pays_by_the_ratio_of_the_raw_rows(filled: Lab) -> None:
    said = text(open_page(filled, "latency"))
    concurrent = rates(filled, "latency", latency_s=0.02, fetch_threads=8)
    serial = rates(filled, "latency", latency_s=0.02, fetch_threads=1)
    assert len(concurrent) == len(serial) == 3
    value, low, _ = welch(concurrent, serial)
    assert low > 1 and value > 1.3, "20 ms per item, eight at a time"
    assert "concurrent fetch pays from" in said.replace("**", "")
    assert as_shown(concurrent, serial) in said
    without = as_shown(rates(filled, "latency", latency_s=0.0, fetch_threads=8),
                       rates(filled, "latency", latency_s=0.0, fetch_threads=1))
    assert re.search(r"(from no latency on|With no latency it is [a-z ]+): ", said.replace("**", ""))
    assert without in said


def test_without_latency_it_says_what_the_raw_rows_say(filled: Lab) -> None:
    said = text(open_page(filled, "no latency")).replace("**", "")
    concurrent, serial = rates(filled, "no latency", fetch_threads=4), rates(filled, "no latency", fetch_threads=1)
    _, low, high = welch(concurrent, serial)
    outcome = "faster" if low > 1 else "slower" if high < 1 else "no difference shown"
    shown = "pays" if low > 1 else "is not shown to pay"
    assert (f"With no latency, concurrent fetch by 4 threads {shown}: it is {outcome}, {as_shown(concurrent, serial)} "
            "the items per second of fetching one by one.") in said


def test_variants_are_shown_against_the_chosen_baseline(filled: Lab) -> None:
    page = open_page(filled, "latency")
    table = page.dataframe[0].value.set_index("Cell")
    base = rates(filled, "latency", latency_s=0.0, fetch_threads=1)
    assert table.loc["fetch_threads=1, latency_s=0.0 (baseline)", "To the baseline"] == "1"
    for latency, threads in ((0.0, 8), (0.02, 1), (0.02, 8)):
        row = table.loc[f"fetch_threads={threads}, latency_s={latency}"]
        assert row["To the baseline"] == as_shown(
            rates(filled, "latency", latency_s=latency, fetch_threads=threads), base)
    slow = next(run["cell_key"] for run in filled.json("runs", "--sweep", sweep_id_of(filled, "latency"))["runs"]
                if run["params"]["latency_s"] == 0.02 and run["params"]["fetch_threads"] == 1)
    table = open_page(filled, "latency", baseline=slow).dataframe[0].value.set_index("Cell")
    assert table.loc["fetch_threads=1, latency_s=0.02 (baseline)", "To the baseline"] == "1"


def test_a_slow_consumer_is_compute_bound_and_a_slow_loader_loading_bound(filled: Lab) -> None:
    page = open_page(filled, "consumers")
    table = page.dataframe[0].value
    limits = {row["Cell"].removesuffix(" (baseline)"): (row["Limit"], row["Evidence"]) for _, row in table.iterrows()}
    assert limits["consume_s=0.0"][0] == "loading-bound"
    assert limits["consume_s=0.2"][0] == "compute-bound"
    assert "1 loading-bound, 1 compute-bound" in text(page)
    shares = []
    for run in filled.json("runs", "--sweep", sweep_id_of(filled, "consumers"))["runs"]:
        if run["params"]["consume_s"] == 0.2:
            phases = run["phases"]
            waited = phases["load_data"]["total_s"] - phases["load_data"]["first_s"]
            paused = phases["consume"]["total_s"] - phases["consume"]["first_s"]
            shares.append(waited / (waited + paused))
    assert f"waiting takes {median(shares):.0%} of the time" in limits["consume_s=0.2"][1]


def test_the_strip_shows_the_waits_of_the_chosen_run(filled: Lab) -> None:
    runs = filled.json("runs", "--sweep", sweep_id_of(filled, "latency"))["runs"]
    serial = next(run for run in runs if run["params"]["latency_s"] == 0.02 and run["params"]["fetch_threads"] == 1)
    page = open_page(filled, "latency", cell=serial["cell_key"], run=serial["run_id"])
    said = text(page)
    assert "By the pattern of its waits alone this run is" in said and "at every turn of the 2 workers" in said
    assert page.selectbox(key="choose_run").value == serial["run_id"]
    page = no_exception(page.selectbox(key="choose_sweep").set_value(sweep_id_of(filled, "consumers")).run())
    assert "at every turn of the 2 workers" in text(page), "another sweep has other cells and runs"


def test_the_published_figures_stand_beside(filled: Lab) -> None:
    said = text(open_page(filled, "latency"))
    assert "Seed 003 loaded its epoch in 11 min 43 s" in said and "17 min 32 s: 0.67 times the rate" in said


def test_one_run_has_no_interval_and_a_steady_state_can_be_missing(filled: Lab) -> None:
    assert "One cell so far" in text(open_page(filled, "one run"))
    page = open_page(filled, "latency", rate="steady state")
    assert "steady state" in " ".join(caption.value for caption in page.caption)


def test_an_empty_lab_offers_the_small_preset_and_shows_what_was_published(lab: Lab) -> None:
    page = draw(PAGE)
    assert "No loader has been measured yet" in text(page)
    assert "Seed 003 loaded its epoch in" in text(page) and "This sweep" not in text(page)
    assert list(page.dataframe[0].value["Source"]) == ["seed 003, one run"] * 2


def test_failed_runs_are_counted_and_the_next_step_is_named(lab: Lab, tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / "set" / name).mkdir(parents=True)
        (tmp_path / "set" / name / "x.jpg").write_text("no image")
    lab.json("sweep", lab.sweep_file(experiment="loading", name="failing", grid={"workers": [0]}, fixed={
        "data": str(tmp_path / "set"), "batch_size": 1, "batches": 2, "image_size": 32}), "--wait", expect=(0, 1))
    page = draw(PAGE)
    assert "no finished run" in text(page) and "Seed 003 loaded its epoch in" in text(page)
    assert any("1 failed" in caption.value for caption in page.caption)


def loaders(lab: Lab, **spec: Any) -> Script:
    return Script(lab.home, experiment="loading").begin(planned_runs=4, grid={"workers": [0, 2, 4]}, **spec)


def captions(page: AppTest) -> str:
    return " ".join(caption.value for caption in page.caption).replace("\\", "")


def add(script: Script, cell: int, workers: int, repeat: int = 0, **more: Any) -> str:
    return script.run(cell, repeat, workers=workers, asked={"seed": 0}, effective={"batches_per_epoch": 4},
                      phases=["load_data"], **more)


def test_ok_runs_without_a_rate_are_counted_among_what_is_not_shown(lab: Lab) -> None:
    rows = b"workers,end_to_end_s,items\n0,1,10\n2,1,\n4,,10\n"
    import_content(lab.home, rows, "times.csv", "loading", "elsewhere")
    page = draw(PAGE)
    assert "Not shown here: 2 ok without items or an end-to-end time." in captions(page)
    assert "One cell so far" in text(page)


def test_what_the_steady_state_leaves_out_is_counted(lab: Lab) -> None:
    script = loaders(lab)
    add(script, 0, 0, metrics={"steady_items_per_s": 50.0})
    add(script, 1, 2, metrics={"steady_items_per_s": 60.0})
    add(script, 1, 2, repeat=1)
    add(script, 2, 4)
    script.end().write()
    assert "1 of 3 cells and 2 of 4 runs are not shown" in captions(draw(PAGE, rate="steady state"))
    assert "are not shown" not in captions(draw(PAGE))


def test_a_failed_first_cell_leaves_a_baseline_that_is_said(lab: Lab) -> None:
    """Cells are measured in random order: the first that was measured is nobody's baseline."""
    script = loaders(lab)
    add(script, 2, 4)
    add(script, 1, 2)
    add(script, 0, 0, status="failed")
    script.end().write()
    page = draw(PAGE)
    assert "What this sweep lists first, workers=0, has no run to show: the baseline is workers=2." in captions(page)
    assert "workers=2 (baseline)" in set(page.dataframe[0].value["Cell"])


def test_a_claim_from_two_runs_says_so(lab: Lab) -> None:
    rows = ["workers,end_to_end_s,items", *(f"{workers},{seconds!r},10" for workers, seconds in (
        (0, 1.0), (0, 1.001), (2, 0.5), (2, 0.501)))]
    import_content(lab.home, ("\n".join(rows) + "\n").encode(), "times.csv", "loading", "elsewhere")
    said = text(draw(PAGE))
    assert ", from two runs only] those of the baseline" in said
    assert "1 faster. 1 of the differences is from two runs only" in said


def test_a_sweep_that_has_not_finished_says_so(lab: Lab) -> None:
    script = loaders(lab, name="cut short")
    add(script, 0, 0)
    add(script, 1, 2)
    script.end("interrupted").write()
    (box,) = draw(PAGE).info
    assert "The sweep cut short was interrupted: 2 of 4 runs are done; resume it" in box.value.replace("\\", "")


def test_runs_of_two_environments_are_not_pooled(lab: Lab) -> None:
    script = loaders(lab)
    for repeat in range(2):
        add(script, 0, 0, repeat)
        add(script, 1, 2, repeat)
    script.end().begin(action="resume", environment_id="env-2", facts={"hostname": "other"},
                       grid={"workers": [0, 2, 4]})
    add(script, 1, 2, 2)
    script.end().write()
    page = draw(PAGE)
    assert "measured in 2 environments" in captions(page)
    assert set(page.dataframe[0].value["Runs"]) == {"2"}
    page = no_exception(page.selectbox(key="choose_environment").set_value("env-2").run())
    assert set(page.dataframe[0].value["Runs"]) == {"1"}


def test_archived_sweeps_are_not_offered(lab: Lab) -> None:
    script = loaders(lab)
    add(script, 0, 0)
    script.end().write()
    annotate(lab.home, "someone", (script.sweep_id, "archive", "", 1.0))
    assert "or all is archived" in text(draw(PAGE))
    assert "One cell so far" in text(draw(PAGE, sweep=script.sweep_id)), "a link opens it all the same"


def test_only_sweeps_of_loaders_are_offered(filled: Lab) -> None:
    from begin import open_keeper

    draw(PAGE)
    names = set(loading_sweeps(open_keeper().store.cursor())["name"])
    assert names == {"latency", "no latency", "consumers", "one run"}
