"""A group meeting in a real browser: a chart onto a board, slides while a sweep runs, and the file to take home."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import quote

from browser.conftest import Visit
from browser.driven_app import App, wait_for
from browser.windows import LivePage, asked_for, settled
from playwright.sync_api import Browser, Page, expect

from engine.sweep_state import read_state
from store.browse import CELLS_SHOWN

SLOW = {"batches": 10, "batch_s": 0.6}


def headline(page: Page) -> str:
    heading = page.get_by_role("heading", level=2)
    expect(heading).to_be_visible()
    return heading.inner_text()


def add_to_new_board(page: Page, chart: str, name: str, note: str) -> None:
    page.locator(f".st-key-take_{chart} button").first.click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("textbox", name="Name of the new board").fill(name)
    dialog.get_by_role("textbox", name="Note").fill(note)
    dialog.get_by_role("button", name="Add to the board").click()
    expect(dialog).to_have_count(0)


def test_a_group_meeting(app: App, visit: Visit, browser: Browser, tmp_path: Path) -> None:
    file = app.lab.sweep_file(experiment="misbehave", name="being measured", order="as_listed",
                              grid={"batch_size": list(range(1, 200))}, fixed=SLOW)
    sweep_id = app.lab.json("sweep", file)["sweep_id"]
    page = visit()
    live = LivePage(page).open(app.url, sweep_id)
    live.wait_until_done(1)
    # From a part of the page that is drawn again every second: the dialog stays all the same.
    add_to_new_board(page, "cells", "Group <b>meeting</b>", "say this")

    page.goto(f"{app.url}/Boards")
    settled(page, "Boards")
    page.get_by_role("main").get_by_role("button", name="Open").click()
    expect(page.get_by_role("heading", name="Group <b>meeting</b>")).to_be_visible()
    page.get_by_role("button", name="Add a live slide").click()
    expect(page.get_by_text("what is being measured while you present")).to_be_visible()
    board_id = asked_for(page, "board")

    # Somebody else opens the shared link, in a window as a projector has it.
    room = visit()
    room.set_viewport_size({"width": 1280, "height": 720})
    room.goto(f"{app.url}/Present?board={board_id}&slide=1")
    first = headline(room)
    assert re.match(r"Fastest of \d+ cells", first)
    expect(room.get_by_test_id("stSidebar")).to_have_count(0)
    expect(room.get_by_role("heading", level=1)).to_have_count(0)
    expect(room.get_by_test_id("stMain").locator("canvas, svg.marks").first).to_be_visible()
    size = room.get_by_role("heading", level=2).evaluate("it => parseFloat(getComputedStyle(it).fontSize)")
    assert size >= 32
    expect(room.get_by_role("button", name="Next")).to_be_visible()
    shown, wide = room.viewport_size, button_widths(room)
    assert shown
    room.set_viewport_size({"width": 800, "height": shown["height"]})
    assert button_widths(room) == wide, "the whole word, in a narrow window too"
    room.set_viewport_size(shown)
    room.wait_for_function("""(() => { const main = document.querySelector('[data-testid=stMain]');
                           return main.scrollHeight <= main.clientHeight })()""")  # no need to scroll
    # Nobody touches it: the slide changes by itself as runs end.
    room.wait_for_function("before => { const h = document.querySelector('h2'); return h && h.innerText != before }",
                           arg=first)
    assert read_state(app.lab.home.sweep(sweep_id)).status == "running"

    room.keyboard.press("ArrowRight")
    expect(room).to_have_url(re.compile(r"slide=2"))
    expect(room.get_by_text(re.compile(r"running · \d+ of 199 runs done"))).to_be_visible()
    room.keyboard.press("ArrowLeft")
    expect(room).to_have_url(re.compile(r"slide=1"))
    expect(room.get_by_role("heading", level=2)).to_have_text(re.compile(r"Fastest of \d+ cells"))
    expect(room.get_by_text("say this")).to_be_visible()

    app.lab.json("cancel", sweep_id)
    wait_for(lambda: read_state(app.lab.home.sweep(sweep_id)).status == "cancelled", "the sweep has ended")
    cells = sum(run["status"] == "ok" for run in app.lab.json("runs", "--sweep", sweep_id)["runs"])
    assert 2 < cells <= CELLS_SHOWN, "all of them are drawn"
    page.goto(f"{app.url}/Boards?board={board_id}")
    expect(page.get_by_text(re.compile(rf"Fastest of {cells} cells"))).to_be_visible()
    said = page.get_by_text(re.compile(r"^Fastest of")).inner_text()
    with page.expect_download() as download:
        page.get_by_role("button", name="HTML").click()
    download.value.save_as(tmp_path / "meeting.html")
    check_file(browser, tmp_path / "meeting.html", said, sweep_id, cells)

    # One chart as files, from the page it is on.
    LivePage(page).open(app.url, sweep_id)
    page.locator(".st-key-take_cells button").first.click()
    for kind, beginning in (("PNG", b"\x89PNG"), ("SVG", b"<svg"), ("CSV", b"cell,"), ("Parquet", b"PAR1")):
        with page.expect_download() as download:
            page.get_by_role("dialog").get_by_role("button", name=kind, exact=True).click()
        assert Path(download.value.path()).read_bytes().startswith(beginning), kind


def button_widths(page: Page) -> list[float]:
    buttons = [page.get_by_role("button", name=name) for name in ("Previous", "Next")]
    return [float(button.evaluate("it => it.getBoundingClientRect().width")) for button in buttons]


def check_file(browser: Browser, file: Path, said: str, sweep_id: str, cells: int) -> None:
    """Opened from disk with the network off: the same finding, a bar per cell and phase, and who measured it."""
    context = browser.new_context(offline=True)
    asked: list[str] = []
    errors: list[str] = []
    page = context.new_page()
    page.on("request", lambda request: asked.append(request.url))
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto(f"file://{quote(str(file))}")
    bars = page.locator("#chart0 svg .mark-rect path")
    expect(bars.first).to_be_visible()
    rows = page.evaluate("views.chart0.data('rows')")
    assert len({row["cell"] for row in rows}) == cells
    assert bars.count() >= len(rows), "a bar for every phase of every cell"
    assert page.get_by_role("heading", level=2).inner_text() == said
    expect(page.get_by_role("heading", level=1)).to_have_text("Group <b>meeting</b>")
    expect(page.get_by_role("listitem")).to_have_text(re.compile(rf"{sweep_id}.*torch.*commit"))
    assert all(url.startswith(("file:", "data:", "blob:")) for url in asked) and not errors, (asked, errors)
    context.close()
