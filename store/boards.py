"""Boards as they are now: what follows from everything people did to them, one act after the other."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import duckdb

RUNNING = "running"
"""The chart's name of an item that shows whatever is being measured."""


@dataclass
class Item:
    item_id: str
    page: str
    chart: str
    link: dict[str, str]
    note: str
    frozen_at: datetime | None = None
    removed: bool = False

    @property
    def live(self) -> bool:
        return self.chart == RUNNING


@dataclass
class Board:
    board_id: str
    name: str
    created_at: datetime
    changed_at: datetime
    deleted: bool = False
    all_items: list[Item] = field(default_factory=list)
    """The removed ones too, at their places: they can be put back."""

    @property
    def items(self) -> list[Item]:
        return [item for item in self.all_items if not item.removed]


def list_boards(connection: duckdb.DuckDBPyConnection) -> list[Board]:
    """Every board, the deleted ones too; the one that was changed last comes first."""
    boards: dict[str, Board] = {}
    for board_id, item_id, act, value, at in connection.execute("""
            SELECT board_id, item_id, act, value, happened_at FROM board_acts
            ORDER BY happened_at, number, board_id, item_id""").fetchall():
        told = json.loads(value)
        if act == "create":
            boards[board_id] = Board(board_id, str(told["name"]), at, at)
        elif board := boards.get(board_id):  # a damaged journal can hide how it began
            board.changed_at = at
            _apply(board, item_id, act, told, at)
    return sorted(boards.values(), key=lambda board: (board.changed_at, board.board_id), reverse=True)


def frozen_figure(connection: duckdb.DuckDBPyConnection, item: Item) -> dict[str, Any] | None:
    found = connection.execute("SELECT figure FROM frozen_figures WHERE item_id = ? AND happened_at = ?",
                               [item.item_id, item.frozen_at]).fetchone()
    return json.loads(found[0]) if found else None


def _apply(board: Board, item_id: str | None, act: str, told: dict[str, Any], at: datetime) -> None:
    item = next((item for item in board.all_items if item.item_id == item_id), None)
    match act:
        case "rename":
            board.name = str(told["name"])
        case "delete" | "restore":
            board.deleted = act == "delete"
        case "add" if item_id and item is None:
            board.all_items.append(Item(item_id, told["page"], told["chart"], told["link"], told["note"]))
        case "note" if item:
            item.note = str(told["note"])
        case "remove" | "put_back" if item:
            item.removed = act == "remove"
        case "freeze" | "unfreeze" if item:
            item.frozen_at = at if act == "freeze" else None
        case "move" if item:
            board.all_items.remove(item)
            shown = board.items
            after = shown[min(told["place"], len(shown)) - 1] if told["place"] > 0 and shown else None
            board.all_items.insert(board.all_items.index(after) + 1 if after else 0, item)
