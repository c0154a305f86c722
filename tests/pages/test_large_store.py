"""The made-up store of the benchmarks is a real one: it opens, its running sweep stays, and every page draws on it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from begin import open_desk
from benchmarks.large_store import build_large_store
from engine.home import PROJECT, Home
from store.database import Store
from store.queries import count_rows, list_runs, list_sweeps
from ui.frame import PAGES, Page


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    home = Home(tmp_path_factory.mktemp("large") / "lab")
    build_large_store(home, sweeps=10, runs=100, phase_rows=10_000)
    with pytest.MonkeyPatch.context() as changed:
        changed.setenv("PHASELAB_HOME", str(home.root))
        st.cache_resource.clear()
        yield home
        keeper = open_desk().keeper
        keeper.stop()
        keeper.store.close()
        st.cache_resource.clear()


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
    assert len({run["run_id"] for run in runs}) == 100
    assert all(run["phases"] and run["metrics"]["end_to_end_s"] > 0 for run in runs if run["status"] == "ok")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.title)
def test_every_page_draws_on_it(home: Home, page: Page) -> None:
    test = AppTest.from_file(str(PROJECT / "app.py"), default_timeout=60)
    if page.file != "app.py":
        test.switch_page(page.file)
    test.run()
    assert not test.exception, [error.message for error in test.exception]
    assert test.title[0].value == page.title


def test_nothing_closes_its_running_sweep(home: Home) -> None:
    keeper = open_desk().keeper
    keeper.catch_up()
    running = [sweep for sweep in list_sweeps(keeper.store.cursor()) if sweep["status"] == "running"]
    assert len(running) == 1
    assert running[0]["runs"]["running"] == 1
    assert not keeper.problems
