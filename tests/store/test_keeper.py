"""The keeper: what is written shows at once when asked for, and one answer serves all until something changes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.home import Home
from engine.people import annotate
from store.database import Store
from store.keeper import Activity, Keeper
from tests.store.small_lab import write_sweep


@pytest.fixture
def keeper(tmp_path: Path) -> Iterator[Keeper]:
    home = Home(tmp_path / "lab")
    write_sweep(home)
    with Store.open(home) as store:
        keeper = Keeper(store, lambda: Activity([], False))
        keeper.start()
        assert keeper.wait_until_ready(60)
        yield keeper
        keeper.stop()


def test_what_a_person_did_is_there_after_catching_up(keeper: Keeper) -> None:
    annotate(keeper.store.home, keeper.store.home.sweep_ids(), "tag", "seen")
    keeper.catch_up()
    assert keeper.store.cursor().execute("SELECT tag FROM tags").fetchall() == [("seen",)]


def test_an_answer_is_asked_for_once_per_change(keeper: Keeper) -> None:
    asked = []
    for _ in range(3):
        keeper.once("key", lambda: asked.append(1))
    keeper.catch_up()
    keeper.once("key", lambda: asked.append(1))
    assert len(asked) == 1  # passes that brought nothing change nothing
    annotate(keeper.store.home, ["x"], "note", "new")
    keeper.catch_up()
    keeper.once("key", lambda: asked.append(1))
    assert len(asked) == 2


def test_the_published_figures_are_there_from_the_first_start(keeper: Keeper) -> None:
    count = keeper.store.cursor().execute("SELECT count(*) FROM published").fetchall()[0][0]
    assert count > 50
    assert keeper.store.cursor().execute("SELECT count(*) FROM published_regret").fetchall()[0][0] > 50
