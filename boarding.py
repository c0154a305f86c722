"""Boards as pages use them: the dialog that takes a chart along, boards as files, what a person does to a board."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import streamlit as st

from engine import boards
from store.boards import Board, Item, list_boards
from ui.exhibits import Exhibit, exhibit_drawn, find_exhibit, freeze, make_page_exhibits, stand_in
from ui.figure import Figure
from ui.frame import safe
from ui.html_export import make_html
from ui.take_dialog import Actions, draw_taking

if TYPE_CHECKING:
    from begin import Lab


def current_boards(lab: Lab) -> list[Board]:
    """Those that are not deleted, the last changed first."""
    return [board for board in all_boards(lab) if not board.deleted]


def all_boards(lab: Lab) -> list[Board]:
    return lab.keeper.once("boards", lambda: list_boards(lab.ask))


def open_taking(lab: Lab, page: str, figure: Figure, say: Any) -> None:
    """The dialog of a figure, for the page and link on which "More" was pressed."""
    link = {key: str(st.query_params[key]) for key in st.query_params}

    def add(board_id: str | None, title: str, note: str) -> Any:
        known = {board.board_id: board.name for board in current_boards(lab)}

        def act() -> str:
            target = board_id if board_id in known else boards.create_board(lab.home, title)
            boards.add_item(lab.home, target, page, figure.name, link, note)
            return known.get(target, title)

        added = lab.do(act, say=st.error)
        if added:
            say(f"Added to {safe(added)}.", ":material/check:")
        return added

    drawn_at = now()

    def exhibit() -> Exhibit:
        return exhibit_drawn(lab.keeper.store.cursor(), page, link, figure)._replace(shown_at=drawn_at)

    def page_as_html() -> str:
        found = make_page_exhibits(lab.keeper.store.cursor(), page, link)
        if figure.name not in [one.name for one in found]:
            found = [exhibit(), *found]
        return make_html(page, [(one, "") for one in found], now())

    draw_taking(figure, page, current_boards(lab), lab.viewer, Actions(add, exhibit, page_as_html))


def board_as_html(lab: Lab, board: Board) -> str:
    """Asked for with a cursor of its own: the download is made after the page has been drawn."""
    asking = lab.keeper.store.cursor()
    shown = [(stand_in(item) if item.live else find_exhibit(lab.keeper, asking, item), item.note)
             for item in board.items]
    return make_html(board.name, shown, now())


def freeze_now(lab: Lab, board: Board, items: list[Item]) -> None:
    """Each item keeps what it shows at this moment; one that shows nothing stays as it is."""
    shown = {item.item_id: find_exhibit(lab.keeper, lab.ask, item) for item in items
             if item.frozen_at is None and not item.live}
    boards.freeze_items(lab.home, board.board_id, {item_id: freeze(exhibit) for item_id, exhibit in shown.items()
                                                   if not exhibit.trouble})


def duplicate(lab: Lab, board: Board) -> str:
    """With the same notes, and what is frozen stays so."""
    items = [{"page": item.page, "chart": item.chart, "link": item.link, "note": item.note,
              "figure": freeze(find_exhibit(lab.keeper, lab.ask, item)) if item.frozen_at else None}
             for item in board.items]
    return boards.copy_board(lab.home, f"{board.name[:110]} (copy)", items)


def now() -> str:
    return f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC"
