"""The made-up store of the benchmarks is a real one: it opens, its running sweep stays, and every page draws on it."""

from __future__ import annotations

from pathlib import Path

import pytest
from drawn_page import draw
from driven_lab import Lab

from begin import open_keeper
from benchmarks.large_store import BOARD, BOARD_CHARTS, build_large_store
from benchmarks.large_store_kinds import KINDS, PHASES
from engine.home import Home
from store.database import Store
from store.queries import count_rows, list_runs, list_sweeps
from ui.frame import PAGES, Page

WITHOUT_CHARTS = {"Launch", "Runs", "Compare", "SQL", "Machine", "Boards", "Present"}
"""Pages that draw none before somebody has chosen something."""


def build(home: Home) -> Home:
    build_large_store(home, sweeps=40, runs=800, phase_rows=50_000)
    return home


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Home:
    return build(Home(tmp_path_factory.mktemp("large") / "lab"))


@pytest.fixture
def home(lab: Lab, large: Home, monkeypatch: pytest.MonkeyPatch) -> Home:
    monkeypatch.setenv("PHASELAB_HOME", str(large.root))
    return large


def test_it_is_as_large_as_asked(tmp_path: Path) -> None:
    with Store.open(build(Home(tmp_path / "lab"))) as store:
        rows = count_rows(store.connection)
        sweeps = list_sweeps(store.connection)
        runs = list_runs(store.connection)
    assert (rows["sweeps"], rows["runs"]) == (40, 800)
    assert 45_000 < rows["phases"] < 55_000
    assert [sweep["status"] for sweep in sweeps].count("running") == 1
    assert {sweep["experiment"] for sweep in sweeps} == {kind.experiment for kind in KINDS}
    assert len({run["run_id"] for run in runs}) == len(runs) > 700  # deleted ones are not listed
    measured = {sweep["sweep_id"] for sweep in sweeps if PHASES[sweep["experiment"]]}
    assert all(run["phases"] and run["metrics"]["end_to_end_s"] > 0 for run in runs
               if run["status"] == "ok" and run["sweep_id"] in measured)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.title)
def test_every_page_draws_on_it(home: Home, page: Page) -> None:
    drawn = draw(page.file)
    assert drawn.title[0].value == page.title
    assert bool(drawn.get("vega_lite_chart")) == (page.title not in WITHOUT_CHARTS)


@pytest.mark.parametrize("view", ["Speed-up", "End to end", "Bottlenecks", "Agreement", "Strategies"])
def test_every_view_of_the_model_search_has_own_runs(home: Home, view: str) -> None:
    page = draw("pages/Model_search.py", view=view)
    assert page.get("vega_lite_chart")
    assert not [link for link in page.get("page_link") if "Launch the" in link.proto.label]


def test_its_board_shows_every_chart(home: Home) -> None:
    board = draw("pages/Boards.py", board=BOARD)
    while any("is being drawn" in part.value for part in board.caption):
        board.run()
    assert len(board.get("vega_lite_chart")) == len(BOARD_CHARTS) == 12
    assert len(draw("pages/Present.py", board=BOARD).get("vega_lite_chart")) == 1


def test_nothing_closes_its_running_sweep(home: Home) -> None:
    keeper = open_keeper()
    keeper.catch_up()
    running = [sweep for sweep in list_sweeps(keeper.store.cursor()) if sweep["status"] == "running"]
    assert len(running) == 1
    assert running[0]["runs"]["running"] == 1
    assert not keeper.problems
