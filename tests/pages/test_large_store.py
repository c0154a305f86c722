"""The made-up store of the benchmarks is a real one: it opens, its running sweep stays, and every page draws on it."""

from __future__ import annotations

from pathlib import Path

import pytest
from drawn_page import draw
from driven_lab import Lab

from begin import open_keeper
from benchmarks.large_store import build_large_store
from engine.home import Home
from store.database import Store
from store.queries import count_rows, list_runs, list_sweeps
from ui.frame import PAGES, Page


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Home:
    home = Home(tmp_path_factory.mktemp("large") / "lab")
    build_large_store(home, sweeps=10, runs=100, phase_rows=10_000)
    return home


@pytest.fixture
def home(lab: Lab, large: Home, monkeypatch: pytest.MonkeyPatch) -> Home:
    monkeypatch.setenv("PHASELAB_HOME", str(large.root))
    return large


def test_it_is_as_large_as_asked(tmp_path: Path) -> None:
    home = Home(tmp_path / "lab")
    build_large_store(home, sweeps=10, runs=100, phase_rows=10_000)
    with Store.open(home) as store:
        rows = count_rows(store.connection)
        sweeps = list_sweeps(store.connection)
        runs = list_runs(store.connection)
    assert (rows["sweeps"], rows["runs"]) == (10, 100)
    assert 9_000 < rows["phases"] < 11_000
    assert [sweep["status"] for sweep in sweeps].count("running") == 1
    assert len({run["run_id"] for run in runs}) == len(runs) > 80  # deleted ones are not listed
    assert all(run["phases"] and run["metrics"]["end_to_end_s"] > 0 for run in runs if run["status"] == "ok")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.title)
def test_every_page_draws_on_it(home: Home, page: Page) -> None:
    assert draw(page.file).title[0].value == page.title


def test_nothing_closes_its_running_sweep(home: Home) -> None:
    keeper = open_keeper()
    keeper.catch_up()
    running = [sweep for sweep in list_sweeps(keeper.store.cursor()) if sweep["status"] == "running"]
    assert len(running) == 1
    assert running[0]["runs"]["running"] == 1
    assert not keeper.problems
