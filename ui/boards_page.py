"""The parts of the Boards page: all boards, and one of them with its charts, notes and what can be done to it."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic
from typing import Any

import streamlit as st

from store.boards import Board, Item
from ui.downloads import on_demand
from ui.exhibits import Exhibit, tell_provenance
from ui.frame import PAGES, empty_state, safe

Act = Callable[..., Any]
"""Called with what is done and its arguments; does it, or says why not."""
AT_ONCE_S = 0.2
"""So long a drawing goes on asking for charts. One that nobody has asked for since the last result takes 0.1 s."""


def draw_new(disabled: bool, act: Act) -> None:
    with st.popover("New board", icon=":material/add:", disabled=disabled, key="new_board"):
        name = st.text_input("Name", key="new_board_name", max_chars=120, disabled=disabled)
        st.button("Create it", type="primary", on_click=act, args=("create", name), key="new_board_create",
                  disabled=disabled)


def draw_list(boards: list[Board], here: str, go: Callable[[str], Any]) -> None:
    """`here` is the page's title. A link to the page that is open loses what it asked for with the next click: there,
    a button calls `go` with the board's id."""
    cards = st.grid(2, min_column_width=320, gap="medium")
    for board in boards:
        with cards.cell(), st.container(border=True, height="stretch", key=f"card_{board.board_id}"):
            frozen = sum(item.frozen_at is not None for item in board.items)
            count = len(board.items)
            st.markdown(f"**{safe(board.name)}**  \n{count} {'chart' if count == 1 else 'charts'}"
                        + (f", {frozen} frozen" if frozen else "")
                        + f" · changed {board.changed_at:%Y-%m-%d %H:%M} UTC")
            with st.container(horizontal=True, vertical_alignment="center"):
                for title, label, icon in (("Boards", "Open", "dashboard"), ("Present", "Present", "slideshow")):
                    if title == here:
                        st.button(label, icon=f":material/{icon}:", on_click=go, args=(board.board_id,),
                                  type="tertiary", key=f"open_{board.board_id}")
                    else:
                        st.page_link(f"pages/{title}.py", label=label, icon=f":material/{icon}:",
                                     query_params={"board": board.board_id})


def invite(sentence: str, measured: bool) -> None:
    """The way to a first chart. `measured`: whether the lab has a sweep."""
    if measured:
        empty_state(sentence, "Choose a chart of the latest sweep", "pages/Live.py", ":material/monitoring:")
    else:
        empty_state(f"{sentence} Nothing has been measured yet.", "Launch a sweep first", "pages/Launch.py")


def draw_deleted(boards: list[Board], disabled: bool, act: Act) -> None:
    if boards:
        with st.expander(f"Deleted: {len(boards)}", icon=":material/delete:", key="deleted_boards"):
            for board in boards:
                with st.container(horizontal=True, vertical_alignment="center"):
                    st.markdown(safe(board.name))
                    st.button("Restore", icon=":material/restore_from_trash:", type="tertiary", on_click=act,
                              args=("restore", board.board_id), key=f"restore_{board.board_id}", disabled=disabled)


def draw_board_bar(board: Board, disabled: bool, act: Act, as_html: Callable[[], str],
                   leave: Callable[[], Any]) -> None:
    with st.container(horizontal=True, vertical_alignment="center"):
        st.button("All boards", icon=":material/arrow_back:", on_click=leave, type="tertiary", key="all_boards")
        st.page_link("pages/Present.py", label="Present", icon=":material/slideshow:",
                     query_params={"board": board.board_id, "slide": "1"})
        file = f"{board.name}.html"
        st.download_button("HTML", on_demand(as_html, file, "text/html"), file, "text/html",
                           icon=":material/download:", on_click="ignore", key="board_html", disabled=not board.items,
                           help="One file with all charts, notes, rows and where they come from; it needs no network")
        with st.popover("Rename", icon=":material/edit:", disabled=disabled, key="rename_board"):
            name = st.text_input("Name", board.name, max_chars=120, key=f"rename_{board.board_id}", disabled=disabled)
            st.button("Rename it", on_click=act, args=("rename", board.board_id, name), disabled=disabled)
        st.button("Duplicate", icon=":material/content_copy:", on_click=act, args=("duplicate", board),
                  disabled=disabled)
        charts = [item for item in board.items if not item.live]
        frozen = bool(charts) and all(item.frozen_at for item in charts)
        st.button("Unfreeze all" if frozen else "Freeze all", icon=":material/ac_unit:", on_click=act,
                  args=("unfreeze" if frozen else "freeze", board, charts), disabled=disabled or not charts,
                  help="A frozen chart shows for ever what it shows now")
        st.button("Add a live slide", icon=":material/monitoring:", on_click=act, args=("live", board.board_id),
                  disabled=disabled, help="A slide that shows whatever is being measured while you present")
        st.button("Delete", icon=":material/delete:", on_click=act, args=("delete", board.board_id), disabled=disabled)


def draw_undo(undo: tuple[str, ...] | None, act: Act) -> None:
    """After something was taken away: the way back, until the next thing is done."""
    if undo:
        with st.container(border=True, horizontal=True, vertical_alignment="center"):
            st.markdown(undo[0])
            st.button("Undo", icon=":material/undo:", on_click=act, args=undo[1:], key="undo")


def renew(items: list[Item], find: Callable[[Item], Exhibit]) -> bool:
    """Asks what each item shows, those first that were asked for longest ago, until a drawing has taken long enough;
    at least one. Whether that were all: the others show what they showed before."""
    before = st.session_state.get("exhibits", {})
    kept = st.session_state["exhibits"] = {item.item_id: before.get(item.item_id, (0.0, None)) for item in items
                                           if not item.live}
    until = monotonic() + AT_ONCE_S
    for number, item in enumerate(sorted((item for item in items if not item.live),
                                         key=lambda item: kept[item.item_id][0])):
        if number and monotonic() > until:
            return False
        kept[item.item_id] = monotonic(), find(item)
    return True


def shown_before(item: Item) -> Exhibit | None:
    found: Exhibit | None = st.session_state["exhibits"].get(item.item_id, (0.0, None))[1]
    return found


def draw_item(board: Board, item: Item, place: int, exhibit: Exhibit | None, disabled: bool, act: Act) -> None:
    """`exhibit` is None while it is not there yet, and for the live slide, which is seen when it is presented."""
    with st.container(border=True, key=f"item_{item.item_id}"):
        if item.live:
            st.markdown("**Live slide**: what is being measured while you present, with its progress and phases.")
        elif exhibit is None:
            st.caption(f":material/hourglass_top: {safe(item.page)}, {safe(item.chart)}: is being drawn.")
        elif exhibit.trouble:
            st.info(f"{safe(item.page)}, {safe(item.chart)}: {exhibit.trouble}", icon=":material/hide_image:")
        else:
            draw_exhibit(exhibit, f"exhibit_{item.item_id}")
        if item.note:
            st.markdown(safe(item.note))
        if exhibit is not None and not exhibit.trouble:
            draw_provenance(exhibit, item)
        with st.container(horizontal=True, vertical_alignment="center"):
            _draw_item_buttons(board, item, place, exhibit, disabled, act)


def draw_exhibit(exhibit: Exhibit, key: str, spec: dict[str, Any] | None = None) -> None:
    if spec is None:
        st.markdown(exhibit.sentence)
    st.vega_lite_chart(spec or exhibit.spec, width="stretch", key=key, alt=exhibit.sentence)
    if spec is None and exhibit.note:
        st.caption(exhibit.note)


def draw_provenance(exhibit: Exhibit, item: Item) -> None:
    told = tell_provenance(exhibit.sweeps)
    state = f"frozen, as of {exhibit.shown_at}" if item.frozen_at else f"as of {exhibit.shown_at}"
    st.caption(f":material/{'ac_unit' if item.frozen_at else 'update'}: {safe(exhibit.label)}, {safe(state)}. "
               + (f"From {safe(told[0])}" + (f" and {len(told) - 1} more." if len(told) > 1 else ".") if told else
                  "It names no sweep of this lab."), help="\n\n".join(map(safe, told)) if len(told) > 1 else None)


def _draw_item_buttons(board: Board, item: Item, place: int, exhibit: Exhibit | None, disabled: bool,
                       act: Act) -> None:
    key, last = item.item_id, len(board.items) - 1
    for label, icon, to in (("Earlier", "arrow_upward", place - 1), ("Later", "arrow_downward", place + 1)):
        st.button(label, icon=f":material/{icon}:", type="tertiary", key=f"{label}_{key}", on_click=act,
                  args=("move", board.board_id, key, to), disabled=disabled or not 0 <= to <= last)
    with st.popover("Note", icon=":material/edit_note:", disabled=disabled, type="tertiary", key=f"note_{key}"):
        text = st.text_area("Note", item.note, max_chars=20_000, key=f"note_text_{key}", disabled=disabled)
        st.button("Keep the note", on_click=act, args=("note", board.board_id, key, text or ""), key=f"keep_{key}",
                  disabled=disabled)
    if not item.live:
        seen = exhibit is not None and not exhibit.trouble
        st.button("Unfreeze" if item.frozen_at else "Freeze", icon=":material/ac_unit:", type="tertiary",
                  key=f"freeze_{key}", on_click=act, args=("unfreeze" if item.frozen_at else "freeze", board, [item]),
                  disabled=disabled or not (seen or item.frozen_at))
    st.button("Remove", icon=":material/close:", type="tertiary", key=f"remove_{key}", on_click=act,
              args=("remove", board.board_id, key), disabled=disabled)
    page = next((page for page in PAGES if page.title == item.page), None)
    if page and not item.live:
        st.page_link(page.file, label=f"Open on {page.title}", icon=page.icon, query_params=item.link)
