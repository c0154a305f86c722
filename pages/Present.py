"""Present: a board as slides, one chart and its finding each; arrow keys turn them, new results appear alone."""

import streamlit as st

from begin import begin, show_messages
from boarding import current_boards
from engine.machine import cpu_allowance
from store.boards import Board
from store.browse import sweep_cells, sweeps_frame
from store.live import live_view, open_sweeps
from ui.boards_page import draw_list, invite
from ui.exhibits import Exhibit, find_exhibit
from ui.frame import set_tab_title
from ui.live_page import CURVES, make_cell_picture, make_pictures
from ui.present_page import SLIDE_CELLS, WINDOW, draw_buttons, draw_live_slide, draw_place, draw_slide

asked = str(st.query_params.get("board", ""))[:200]


def open_board(board_id: str) -> None:
    st.query_params["board"] = board_id


lab = begin("Present", bare=bool(asked))
boards = {board.board_id: board for board in current_boards(lab)}
board = boards.get(asked)
if board is None or not board.items:
    if asked:
        st.title("Present")
        st.warning("This board is empty." if board else
                   "There is no board with this id: it was deleted, or the link is from another lab.")
    if any(board.items for board in boards.values()):
        draw_list([board for board in boards.values() if board.items], "Present", open_board)
    else:
        invite("There is no board to present yet. Press **More** beneath any chart and add it to a new one.",
               not sweeps_frame(lab.ask, 1).empty)
    st.stop()


def current_slide(slides: int, further: int = 0) -> int:
    text = str(st.query_params.get("slide", "1"))[:9]
    return min(max((int(text) if text.isdecimal() else 1) + further, 1), slides)


def board_now(opened: Board = board) -> Board:
    """With what was added or removed since the page was opened; an emptied or deleted one stays as it was then."""
    found = next((found for found in current_boards(lab) if found.board_id == opened.board_id), opened)
    return found if found.items else opened


def step(further: int) -> None:
    """From the slide that the link names now: of two quick presses none is lost."""
    st.query_params["slide"] = str(current_slide(len(board_now().items), further))


def draw_running() -> None:
    running = [sweep["sweep_id"] for sweep in lab.keeper.once("open sweeps", lambda: open_sweeps(lab.ask))
               if sweep["status"] == "running"]
    latest = running or list(lab.keeper.once("newest sweep", lambda: sweeps_frame(lab.ask, 1))["sweep_id"])
    pictures = lab.keeper.once(("live", latest[0]), lambda: make_pictures(
        live_view(lab.ask, latest[0], CURVES), cpu_allowance().cores)) if latest else None
    finished = lab.keeper.once(("slide cells", latest[0]), lambda: make_cell_picture(
        sweep_cells(lab.ask, latest[0]), SLIDE_CELLS), version=pictures.view.sweep["ended"]) if pictures else None
    draw_live_slide(pictures, finished)


@st.fragment(run_every=2)
def draw() -> None:
    """Every two seconds: a slide changes by itself when there is a new result."""
    show_messages()
    shown = board_now()
    slide = current_slide(len(shown.items))
    item = shown.items[slide - 1]
    exhibit: Exhibit | None = None
    stage = st.container(key="stage")
    beside = draw_buttons(step, shown.board_id)
    with stage:
        if item.live:
            draw_running()
        else:
            exhibit = find_exhibit(lab.keeper, lab.ask, item)
            draw_slide(exhibit, item.note)
    with beside:
        draw_place(shown.name, slide, len(shown.items), exhibit)


st.html(WINDOW)
set_tab_title(board.name)
draw()
