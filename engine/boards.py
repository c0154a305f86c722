"""What people do to boards, journaled like all else. An item is a page, a chart's name and a link: never code."""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from engine.home import Home
from engine.journal import BoardAct, JournalWriter
from engine.moment import utc_now_exact
from engine.params import InputError

NAME_LENGTH, NOTE_LENGTH, LINK_LENGTH = 120, 20_000, 20_000
FIGURE_BYTES = 4_000_000
"""Of one frozen figure as JSON: a journal is kept for ever."""


def create_board(home: Home, name: str) -> str:
    """Returns its id."""
    board_id = _new_id("board")
    _write(home, [BoardAct(board_id, "create", "", value={"name": _name(name)})])
    return board_id


def rename_board(home: Home, board_id: str, name: str) -> None:
    _write(home, [BoardAct(board_id, "rename", "", value={"name": _name(name)})])


def change_board(home: Home, board_id: str, act: str) -> None:
    """Deleted boards are hidden and can be restored."""
    assert act in ("delete", "restore"), act
    _write(home, [BoardAct(board_id, act, "")])


def add_item(home: Home, board_id: str, page: str, chart: str, link: Mapping[str, str], note: str = "") -> str:
    """Returns the item's id. `page` is a page's title; the link is what its address says besides."""
    if page == "SQL":
        raise InputError("a chart of the SQL page does not go onto a board, which holds no code: take it along as PNG, "
                         "SVG or HTML")
    item_id = _new_id("item")
    _write(home, [_adding(board_id, item_id, page, chart, link, note)])
    return item_id


def note_item(home: Home, board_id: str, item_id: str, note: str) -> None:
    _write(home, [BoardAct(board_id, "note", "", 0, item_id, {"note": note[:NOTE_LENGTH]})])


def move_item(home: Home, board_id: str, item_id: str, place: int) -> None:
    """To this place among the items that are shown, counted from 0."""
    _write(home, [BoardAct(board_id, "move", "", 0, item_id, {"place": max(place, 0)})])


def change_item(home: Home, board_id: str, item_id: str, act: str) -> None:
    assert act in ("remove", "put_back", "unfreeze"), act
    _write(home, [BoardAct(board_id, act, "", 0, item_id)])


def freeze_items(home: Home, board_id: str, figures: Mapping[str, dict[str, Any]]) -> None:
    """From now on each of these items shows this figure."""
    _write(home, [BoardAct(board_id, "freeze", "", 0, item_id, figure=_small(figure))
                  for item_id, figure in figures.items()])


def copy_board(home: Home, name: str, items: Sequence[Mapping[str, Any]]) -> str:
    """A new board with these items: page, chart, link, note and, for a frozen one, its figure. Returns its id."""
    board_id = _new_id("board")
    acts = [BoardAct(board_id, "create", "", value={"name": _name(name)})]
    for item in items:
        item_id = _new_id("item")
        acts.append(_adding(board_id, item_id, item["page"], item["chart"], item["link"], item["note"]))
        if item["figure"] is not None:
            acts.append(BoardAct(board_id, "freeze", "", 0, item_id, figure=_small(item["figure"])))
    _write(home, acts)
    return board_id


def _adding(board_id: str, item_id: str, page: str, chart: str, link: Mapping[str, str], note: str) -> BoardAct:
    if sum(len(name) + len(value) for name, value in link.items()) > LINK_LENGTH:
        raise InputError(f"link: is longer than {LINK_LENGTH:,} characters; choose less on the page, then add it")
    return BoardAct(board_id, "add", "", 0, item_id,
                    {"page": page, "chart": chart, "link": dict(link), "note": note[:NOTE_LENGTH]})


def _name(name: str) -> str:
    name = " ".join(name.split())
    if not 1 <= len(name) <= NAME_LENGTH:
        raise InputError(f"name={name[:40]!r}: a board needs a name of 1 to {NAME_LENGTH} characters; give it one")
    return name


def _small(figure: dict[str, Any]) -> dict[str, Any]:
    if (size := len(msgspec.json.encode(figure))) > FIGURE_BYTES:
        raise InputError(f"figure: takes {size:,} bytes and can only be kept with up to {FIGURE_BYTES:,}; choose fewer "
                         "rows on its page, or keep it as PNG")
    return figure


def _new_id(kind: str) -> str:
    return f"{kind}-{secrets.token_hex(4)}"


def _write(home: Home, acts: list[BoardAct]) -> None:
    """One small file per act, as for tags and notes: all of it is there, or nothing."""
    moment = utc_now_exact()
    journal = JournalWriter(home.people / f"{moment.replace(':', '')}-{os.getpid()}-{secrets.token_hex(2)}.jsonl")
    for number, act in enumerate(acts):
        act.at, act.number = moment, number
        journal.write(act)
    journal.close()
