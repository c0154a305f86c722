"""Boards from their journals: each act has its effect, rebuild gives the same rows, what is damaged does no harm."""

from __future__ import annotations

import pytest

from engine import boards
from engine.home import Home
from engine.params import InputError
from store.boards import Board, frozen_figure, list_boards
from store.database import Store
from store.ingest import ingest_people
from tests.store.journal_builder import fresh, rebuilt, rows_of

LINK = {"sweeps": "20260301-090000-aaaa", "view": "Heat map"}


def read(home: Home) -> list[Board]:
    with Store.open(home) as store:
        ingest_people(store.connection, home)
        return list_boards(store.connection)


def charts(board: Board) -> str:
    return "".join(item.chart for item in board.items)


def filled(home: Home, names: str = "abc") -> tuple[str, list[str]]:
    board_id = boards.create_board(home, "  Group\n meeting ")
    return board_id, [boards.add_item(home, board_id, "Memory", name, LINK, f"note {name}") for name in names]


def test_every_act_has_its_effect(home: Home) -> None:
    board_id, (a, _b, c) = filled(home)
    board, = read(home)
    assert (board.board_id, board.name, charts(board)) == (board_id, "Group meeting", "abc")
    assert board.items[0].link == LINK and board.items[0].note == "note a"
    boards.rename_board(home, board_id, "later <b>")
    boards.note_item(home, board_id, a, "")
    boards.move_item(home, board_id, c, 0)
    board, = read(home)
    assert (board.name, charts(board), board.items[1].note) == ("later <b>", "cab", "")
    boards.change_item(home, board_id, a, "remove")
    boards.move_item(home, board_id, c, 99)
    assert charts(read(home)[0]) == "bc"
    boards.change_item(home, board_id, a, "put_back")
    assert sorted(charts(read(home)[0])) == ["a", "b", "c"]
    boards.change_board(home, board_id, "delete")
    assert read(home)[0].deleted
    boards.change_board(home, board_id, "restore")
    assert not read(home)[0].deleted


@pytest.mark.parametrize(("which", "place", "order"), [(0, 1, "bac"), (0, 2, "bca"), (2, 1, "acb"), (2, 0, "cab"),
                                                       (1, 1, "abc")])
def test_an_item_is_moved_among_those_shown(home: Home, which: int, place: int, order: str) -> None:
    board_id, (x, *items) = filled(home, "xabc")
    boards.change_item(home, board_id, x, "remove")
    boards.move_item(home, board_id, items[which], place)
    assert charts(read(home)[0]) == order


def test_a_frozen_figure_is_the_one_of_its_moment(home: Home) -> None:
    board_id, (a, b, _c) = filled(home)
    figures = [{"sentence": f"finding {number}", "spec": {"datasets": {"rows": [{"x": 0.1 + 0.2}]}}}
               for number in range(3)]
    boards.freeze_items(home, board_id, {a: figures[0], b: figures[1]})
    boards.change_item(home, board_id, b, "unfreeze")
    boards.freeze_items(home, board_id, {a: figures[2]})
    copied = boards.copy_board(home, "copy", [{"page": "Memory", "chart": "a", "link": LINK, "note": "",
                                               "figure": figures[1]}])
    with Store.open(home) as store:
        ingest_people(store.connection, home)
        found = {board.board_id: board for board in list_boards(store.connection)}
        items = found[board_id].items
        assert frozen_figure(store.connection, items[0]) == figures[2]
        assert [item.frozen_at is None for item in items] == [False, True, True]
        assert frozen_figure(store.connection, found[copied].items[0]) == figures[1]


def test_rebuild_gives_the_same_rows_and_boards(home: Home) -> None:
    board_id, (a, _b, c) = filled(home)
    boards.freeze_items(home, board_id, {a: {"sentence": "x"}, c: {"sentence": "y"}})
    boards.move_item(home, board_id, a, 2)
    boards.change_board(home, board_id, "delete")
    before = read(home)
    with Store.open(home) as store:
        rows = rows_of(store.connection)
    assert rows == fresh(home) == rebuilt(home)
    assert len(rows["board_acts"]) == 8 and len(rows["frozen_figures"]) == 2
    assert read(home) == before


def test_acts_without_their_board_do_no_harm(home: Home) -> None:
    boards.rename_board(home, "board-gone", "x")
    board_id, (_a,) = filled(home, "a")
    boards.note_item(home, board_id, "item-gone", "x")
    boards.move_item(home, board_id, "item-gone", 0)
    board, = read(home)
    assert charts(board) == "a"


def test_wrong_input_is_refused_with_a_sentence(home: Home) -> None:
    board_id, (a,) = filled(home, "a")
    for name in ("", "   ", "x" * 121):
        with pytest.raises(InputError, match="1 to 120 characters"):
            boards.create_board(home, name)
    with pytest.raises(InputError, match="longer than 20,000"):
        boards.add_item(home, board_id, "Memory", "a", {"q": "x" * 20_001})
    with pytest.raises(InputError, match="can only be kept"):
        boards.freeze_items(home, board_id, {a: {"spec": "x" * 4_000_000}})
    assert len(read(home)) == 1 and read(home)[0].items[0].frozen_at is None
