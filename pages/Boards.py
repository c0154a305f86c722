"""Boards: charts of any page side by side with notes, to be ordered, frozen, shared by link and presented."""

from typing import Any

import streamlit as st

from begin import begin, toast
from boarding import all_boards, board_as_html, current_boards, duplicate, freeze_now
from engine import boards
from store.boards import RUNNING, Board, Item
from store.browse import sweeps_frame
from ui.boards_page import (
    draw_board_bar,
    draw_deleted,
    draw_item,
    draw_list,
    draw_new,
    draw_undo,
    invite,
    renew,
    shown_before,
)
from ui.exhibits import find_exhibit
from ui.frame import safe, set_tab_title

EVERY_S, SOON_S = 3.0, 0.2  # between two drawings of a board: once all of its charts are there, and before

lab = begin("Boards")
HOW = ('Press **More** beneath any chart of any page and add it to a board: the board keeps what was chosen there and '
       'shows new results as they come.')


def act(what: str, *arguments: Any) -> None:
    """A button's work; every one of them is written down."""
    st.session_state["board_undo"] = None
    done = lab.do(ACTS[what], *arguments)
    if done is None:
        return
    if what in ("create", "duplicate"):
        st.query_params["board"] = done
    elif what == "delete":
        st.query_params.clear()
        st.session_state["board_undo"] = ("The board was deleted.", "restore", *arguments)
    elif what == "remove":
        st.session_state["board_undo"] = ("The chart was taken from the board.", "put_back", *arguments)
    elif what == "restore":
        st.query_params["board"] = arguments[0]
    elif what == "rename":
        toast("Renamed.", ":material/check:")


def unfreeze(board: Board, items: list[Item]) -> None:
    for item in items:
        if item.frozen_at:
            boards.change_item(lab.home, board.board_id, item.item_id, "unfreeze")


ACTS: dict[str, Any] = {
    "create": lambda name: boards.create_board(lab.home, name),
    "rename": lambda board_id, name: boards.rename_board(lab.home, board_id, name),
    "delete": lambda board_id: boards.change_board(lab.home, board_id, "delete"),
    "restore": lambda board_id: boards.change_board(lab.home, board_id, "restore"),
    "duplicate": lambda board: duplicate(lab, board),
    "freeze": lambda board, items: freeze_now(lab, board, items), "unfreeze": unfreeze,
    "live": lambda board_id: boards.add_item(lab.home, board_id, "Live", RUNNING, {}),
    "move": lambda *which: boards.move_item(lab.home, *which),
    "note": lambda *which: boards.note_item(lab.home, *which),
    "remove": lambda *which: boards.change_item(lab.home, *which, "remove"),
    "put_back": lambda *which: boards.change_item(lab.home, *which, "put_back"),
}


def open_board(board_id: str) -> None:
    st.query_params["board"] = board_id


def find_board(board_id: str) -> Board | None:
    return next((board for board in current_boards(lab) if board.board_id == board_id), None)


def has_sweeps() -> bool:
    return not lab.keeper.once("newest sweep", lambda: sweeps_frame(lab.ask, 1)).empty


def draw_all() -> None:
    draw_undo(st.session_state.get("board_undo"), act)
    draw_new(lab.viewer, act)
    if found := current_boards(lab):
        draw_list(found, "Boards", open_board)
    else:
        invite(f"There is no board yet. {HOW}", has_sweeps())
    draw_deleted([board for board in all_boards(lab) if board.deleted], lab.viewer, act)


def ask_for(board: Board) -> bool:
    return renew(board.items, lambda item: find_exhibit(lab.keeper, lab.ask, item))


def draw_items(board_id: str, told: list[bool]) -> None:
    """Again and again: what was measured meanwhile is on the board. `told` has the answer of the page's own run."""
    board = find_board(board_id)
    if board is None:
        st.info("This board was deleted meanwhile.")
        return
    draw_undo(st.session_state.get("board_undo"), act)
    if not board.items:
        invite(f"This board is empty. {HOW}", has_sweeps())
    again = not told
    whole = told.pop() if told else ask_for(board)
    for place, item in enumerate(board.items):
        draw_item(board, item, place, shown_before(item), lab.viewer, act)
    if again and hurry and whole:
        st.rerun()  # from now on at the usual pace


asked = str(st.query_params.get("board", ""))[:200]
board = find_board(asked)
if board is None:
    if asked:
        st.warning("There is no board with this id: it was deleted, or the link is from another lab.")
    draw_all()
else:
    set_tab_title(board.name)
    st.header(safe(board.name), anchor=False)
    draw_board_bar(board, lab.viewer, act, lambda: board_as_html(lab, board), st.query_params.clear)
    hurry = not ask_for(board)
    st.fragment(run_every=SOON_S if hurry else EVERY_S)(draw_items)(board.board_id, [not hurry])
