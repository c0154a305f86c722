"""Boards and slides on a real small sweep: what they show is what pages draw, also later, frozen, and for viewers."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from drawn_page import assert_replayed, draw, no_exception
from driven_lab import Lab
from streamlit.testing.v1 import AppTest

import begin
from begin import open_keeper
from boarding import board_as_html
from engine import boards
from engine.noise_check import run_check
from engine.people import annotate
from store.boards import Board, frozen_figure, list_boards
from store.queries import list_runs
from ui.exhibits import find_exhibit, make_exhibits, make_page_exhibits, tell_provenance, thaw
from ui.replay import replay

SMALL = {"data": "generated", "image_size": 32, "batches": 6, "model": "resnet18", "threads": 1}
BARS = "bars_jpeg"


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory, image_cache: Path) -> Path:
    lab = Lab.at(tmp_path_factory.mktemp("boards"))
    lab.home.root.mkdir(parents=True)
    lab.home.cache.symlink_to(image_cache)
    lab.json("sweep", lab.sweep_file(experiment="inference", name="<script>alert(1)</script>", fixed=SMALL, repeats=2,
                                     grid={"batch_size": [1, 2], "workers": [0, 1]}), "--wait")
    return lab.home.root


@pytest.fixture
def filled(lab: Lab, measured: Path) -> Lab:
    shutil.copytree(measured, lab.home.root, symlinks=True)
    return lab


@pytest.fixture
def sweep_id(filled: Lab) -> str:
    return filled.home.sweep_ids()[0]


@pytest.fixture
def board_id(filled: Lab, sweep_id: str) -> str:
    """Bars of the grid, cells of Live, and the live slide."""
    made = boards.create_board(filled.home, "Group *meeting* <b>")
    boards.add_item(filled.home, made, "Batch & workers", BARS, {"sweeps": sweep_id}, "a <i>note</i>")
    boards.add_item(filled.home, made, "Live", "cells", {"sweep": sweep_id})
    boards.add_item(filled.home, made, "Live", "running", {})
    return made


def current(board_id: str) -> Board:
    open_keeper().catch_up()
    return next(board for board in list_boards(open_keeper().store.cursor()) if board.board_id == board_id)


def open_board(board_id: str) -> AppTest:
    """With all its charts: a busy machine takes several drawings for them."""
    page = draw("pages/Boards.py", board=board_id)
    while waiting(page):
        no_exception(page.run())
    return page


def waiting(page: AppTest) -> int:
    return sum("is being drawn" in part.value for part in page.caption)


def press(page: AppTest, key: str) -> AppTest:
    return no_exception(page.button(key=key).click().run())


def specs(page: AppTest) -> list[str]:
    return [part.proto.spec for part in page.get("vega_lite_chart")]


# -- replay ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("view", ["Bars", "Heat map", "First batch", "Published"])
def test_views_of_a_page_are_replayed(filled: Lab, sweep_id: str, view: str) -> None:
    replayed = assert_replayed("Batch & workers", sweeps=sweep_id, view=view)
    assert replayed.link["view" if view != "Bars" else "sweeps"] == (view if view != "Bars" else sweep_id)
    assert "Heat map" in replayed.views["view"]


def test_live_home_and_one_run_are_replayed(filled: Lab, sweep_id: str) -> None:
    run_id = list_runs(open_keeper().store.cursor())[0]["run_id"] if open_keeper().wait_until_ready(60) else ""
    assert_replayed("Live", sweep=sweep_id)
    assert_replayed("Home")
    assert_replayed("Runs", run=run_id, tab="Phases")


def test_a_page_without_a_chart_ends_in_a_sentence(filled: Lab) -> None:
    assert replay("Training", {}).trouble  # it ends with st.stop: nothing was measured for it
    assert "what the link names is not here" in replay("Live", {"sweep": "20200101-000000-aaaa"}, "batches").trouble
    assert "not on its page any more" in replay("Live", {}, "no such chart").trouble
    assert "no such page" in replay("../../etc/passwd", {}).trouble


def test_a_page_that_fails_is_a_sentence_too(filled: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("store.grids.grid_sweeps", lambda *_: 1 / 0)
    found, = make_exhibits(open_keeper().store.cursor(), "Batch & workers", {}, BARS)
    assert "failed: open it" in found.trouble


def test_what_is_wanted_ends_the_page_and_an_export_opens_every_view(filled: Lab, sweep_id: str) -> None:
    asking = open_keeper().store.cursor()
    wanted, = make_exhibits(asking, "Batch & workers", {"sweeps": sweep_id}, BARS)
    assert (wanted.name, wanted.page, wanted.trouble) == (BARS, "Batch & workers", "")
    told, = tell_provenance(wanted.sweeps)
    assert sweep_id in told and "torch 2." in told and "commit " in told and "<script>" in told
    names = {exhibit.name for exhibit in make_page_exhibits(asking, "Batch & workers", {"sweeps": sweep_id})}
    assert {BARS, "heat_jpeg", "first_jpeg"} < names


# -- boards ------------------------------------------------------------------------------------------------------------


def test_a_board_shows_orders_notes_and_removes(filled: Lab, board_id: str) -> None:
    page = open_board(board_id)
    first, second, live = current(board_id).items
    assert len(specs(page)) == 2
    assert any("a &lt;i&gt;note&lt;/i&gt;" in part.value for part in page.markdown)
    page = press(page, f"Later_{first.item_id}")
    assert [item.item_id for item in current(board_id).items] == [second.item_id, first.item_id, live.item_id]
    page = press(page, f"remove_{second.item_id}")
    assert [item.item_id for item in current(board_id).items] == [first.item_id, live.item_id]
    press(page, "undo")
    assert [item.item_id for item in current(board_id).items] == [second.item_id, first.item_id, live.item_id]


def test_a_board_is_there_at_once_and_its_charts_one_after_the_other(
        filled: Lab, board_id: str, sweep_id: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ui.boards_page.AT_ONCE_S", 0.0)
    page = draw("pages/Boards.py", board=board_id)
    first, second, _ = current(board_id).items
    assert (len(specs(page)), waiting(page)) == (1, 1)
    assert not page.button(key=f"freeze_{first.item_id}").disabled
    assert page.button(key=f"freeze_{second.item_id}").disabled  # there is nothing to keep yet
    no_exception(page.run())
    assert (len(specs(page)), waiting(page)) == (2, 0)
    # New results are asked for one after the other too; what is not asked for yet stays as it was.
    annotate(filled.home, [sweep_id], "delete")
    open_keeper().catch_up()
    no_exception(page.run())
    assert len(specs(page)) == 1
    no_exception(page.run())
    assert len(specs(page)) == 0


def test_a_frozen_chart_stays_when_its_runs_are_gone(filled: Lab, board_id: str, sweep_id: str) -> None:
    page = open_board(board_id)
    item = current(board_id).items[0]
    press(page, f"freeze_{item.item_id}")
    keeper = open_keeper()
    frozen = current(board_id).items[0]
    assert frozen.frozen_at is not None
    before = find_exhibit(keeper, keeper.store.cursor(), frozen)
    annotate(filled.home, [sweep_id], "delete")
    first, second = (find_exhibit(keeper, keeper.store.cursor(), found) for found in current(board_id).items[:2])
    assert first == before and not first.trouble
    assert second.trouble, "what is not frozen follows what is there"
    page = open_board(board_id)
    assert len(specs(page)) == 1
    figure = frozen_figure(keeper.store.cursor(), frozen)
    assert figure and thaw(figure) == before
    press(page, f"freeze_{item.item_id}")
    assert current(board_id).items[0].frozen_at is None


def test_boards_are_deleted_restored_and_duplicated(filled: Lab, board_id: str) -> None:
    page = draw("pages/Boards.py", board=board_id)
    next(button for button in page.button if button.label == "Duplicate").click().run()
    copy = next(board for board in list_boards(open_keeper().store.cursor()) if board.board_id != board_id)
    assert copy.name.endswith("(copy)")
    assert [(item.page, item.chart, item.note) for item in copy.items] == [
        (item.page, item.chart, item.note) for item in current(board_id).items]
    page = draw("pages/Boards.py", board=board_id)
    page = no_exception(next(button for button in page.button if button.label == "Delete").click().run())
    assert current(board_id).deleted
    press(page, "undo")
    assert not current(board_id).deleted


def test_viewers_change_nothing(filled: Lab, board_id: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every button is disabled, and pressed all the same: somebody forged the click."""
    monkeypatch.setenv("PHASELAB_VIEWER", "1")
    written = set(filled.home.people.iterdir())
    buttons = len(draw("pages/Boards.py", board=board_id).button)
    assert buttons > 10
    for number in range(buttons):
        button = draw("pages/Boards.py", board=board_id).button[number]
        assert button.disabled or button.label == "All boards"
        button.proto.disabled = False
        no_exception(button.click().run())
    assert set(filled.home.people.iterdir()) == written


# -- slides ------------------------------------------------------------------------------------------------------------


def test_a_slide_has_the_finding_as_its_headline_and_nothing_else(filled: Lab, board_id: str) -> None:
    page = draw("pages/Present.py", board=board_id, slide="1")
    assert not page.sidebar.markdown and not page.title
    assert page.header[0].value.startswith("resnet18 comes out fastest with batch size")
    assert len(specs(page)) == 1 and '"labelFontSize": 18' in specs(page)[0].replace('":18', '": 18')
    page = press(page, "next")
    cells = page.header[0].value
    assert cells.startswith("Fastest of 4 cells")
    page = press(page, "next")
    press(page, "next")  # there is no further one
    assert page.query_params["slide"] == "3"
    assert any("4 runs done" in part.value or "8 of 8 runs done" in part.value for part in page.markdown)
    assert press(page, "previous").header[0].value == cells
    for slide in ("99", "-1", "x" * 5000):
        assert len(draw("pages/Present.py", board=board_id, slide=slide).header) == 1


def test_a_chart_that_is_added_while_presenting_is_reached(filled: Lab, board_id: str, sweep_id: str) -> None:
    page = draw("pages/Present.py", board=board_id, slide="3")
    boards.add_item(filled.home, board_id, "Batch & workers", BARS, {"sweeps": sweep_id})
    assert len(current(board_id).items) == 4
    page = press(page, "next")
    assert page.query_params["slide"] == "4"
    assert "fastest with batch size" in page.header[0].value


def test_a_noise_check_is_new_on_a_board_as_soon_as_it_was_made(filled: Lab) -> None:
    made = boards.create_board(filled.home, "Quiet?")
    boards.add_item(filled.home, made, "Machine", "noise_check", {})
    open_keeper().wait_until_ready(60)
    (item,) = current(made).items
    shown = []
    for _ in range(2):
        run_check(filled.home, 0.2)
        shown.append(find_exhibit(open_keeper(), open_keeper().store.cursor(), item))
    assert shown[0].rows and shown[0].rows != shown[1].rows


def test_a_live_slide_is_told_of_in_the_file(filled: Lab, board_id: str) -> None:
    keeper = open_keeper()
    keeper.wait_until_ready(60)
    html = board_as_html(begin.Lab(filled.home, keeper, keeper.store.cursor(), False), current(board_id))
    assert html.count("<section>") == 3 and "A live slide: in the lab it shows" in html


def test_a_slide_follows_new_results(filled: Lab, board_id: str, sweep_id: str) -> None:
    """The same slide before and after one run was deleted: its number is computed anew."""
    before = draw("pages/Present.py", board=board_id, slide="2").header[0].value
    runs = list_runs(open_keeper().store.cursor())
    annotate(filled.home, [run["run_id"] for run in runs if run["repeat"] == 1], "delete")
    open_keeper().catch_up()
    assert draw("pages/Present.py", board=board_id, slide="2").header[0].value != before
