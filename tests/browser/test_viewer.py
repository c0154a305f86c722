"""Viewer mode: everything can be looked at and nothing changed, also by somebody who forges the clicks."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from browser.conftest import Visit
from browser.driven_app import App, wait_for
from browser.forged import forge
from browser.windows import settled
from playwright.sync_api import expect

from engine.home import SweepFolder
from engine.queue import read_queue
from engine.sweep_state import process_alive, read_state

CHANGES = re.compile(r"\b(launch|tour|cancel|pause|continue|next|resume|again|extend|tags?|notes?|archive|delete|"
                     r"import|save|rename|move|up|down|measure)\b", re.I)
"""Names of buttons that would change something."""


def measuring(app: App) -> SweepFolder:
    """A sweep started from the command line, in the middle of its first run of two."""
    file = app.lab.sweep_file(experiment="misbehave", name="long", grid={"seed": [1, 2]},
                              fixed={"batches": 2000, "batch_s": 0.2})
    folder = app.lab.home.sweep(app.lab.json("sweep", file)["sweep_id"])
    wait_for(lambda: read_state(folder).runs, "its run is being measured")
    return folder


def pages(sweep_id: str) -> dict[str, tuple[str, str]]:
    """Title, name in the link and the rest of the link."""
    return {"Home": ("", ""), "Launch": ("Launch", "experiment=misbehave"), "Live": ("Live", f"sweep={sweep_id}"),
            "Runs": ("Runs", ""), "Compare": ("Compare", f"items={sweep_id}"), "Boards": ("Boards", ""),
            "Present": ("Present", ""), "SQL": ("SQL", "q=FROM+runs"),
            "Batch & workers": ("Batch_and_workers", ""), "Data loading": ("Data_loading", ""),
            "Model search": ("Model_search", ""), "Memory": ("Memory", "view=Largest+batch"),
            "Training": ("Training", ""), "Machine": ("Machine", "")}


@pytest.fixture(scope="module")
def known_buttons(start_app: Callable[..., App]) -> dict[str, dict[str, str]]:
    """Every page's buttons on a server that allows them; two are clicked, to show that forging works."""
    app = start_app()
    folder = measuring(app)
    known = {}
    for title, (page, query) in pages(folder.sweep_id).items():
        with forge(app.url, page, query) as forger:
            known[title] = forger.buttons
    assert "Start the one-minute tour" in known["Home"] and "Launch" in known["Launch"]
    with forge(app.url, "Launch", "experiment=misbehave") as forger:
        forger.click(known["Launch"]["Launch"])
    assert len(app.sweeps()) == 2
    with forge(app.url, "Live", f"sweep={folder.sweep_id}") as forger:
        forger.click(known["Live"]["Cancel"])
    wait_for(lambda: read_state(folder).status == "cancelled", "the forged cancel")
    app.close()
    return known


@pytest.fixture(scope="module")
def viewer(start_app: Callable[..., App]) -> App:
    return start_app(PHASELAB_VIEWER="1")


@pytest.fixture(scope="module")
def watched(viewer: App) -> SweepFolder:
    return measuring(viewer)


def nothing_changed(viewer: App, watched: SweepFolder) -> None:
    assert viewer.sweeps() == [watched]
    assert process_alive(watched) and read_state(watched).status == "running"
    (entry,) = read_queue(viewer.lab.home).entries
    assert not entry.paused and not read_queue(viewer.lab.home).paused
    assert not list(viewer.lab.home.people.glob("*")), "something was written in the name of a viewer"


def test_buttons_that_change_things_are_absent_or_disabled(viewer: App, watched: SweepFolder, visit: Visit) -> None:
    page = visit()
    for title, (name, query) in pages(watched.sweep_id).items():
        page.goto(f"{viewer.url}/{name}?{query}")
        settled(page, title) if title != "Live" else page.get_by_text("runs done").wait_for()
        enabled = [button for button in page.get_by_role("main").get_by_role("button").all()
                   if CHANGES.search(button.inner_text()) and button.is_enabled()]
        assert not [button.inner_text() for button in enabled], title
        # Somebody enables them with the browser's own tools.
        page.evaluate("""for (const button of document.querySelectorAll('[data-testid=stMain] button[disabled]')) {
            button.disabled = false; button.click() }""")
        settled(page, title) if title != "Live" else page.get_by_text("runs done").wait_for()
    nothing_changed(viewer, watched)


def test_a_query_of_a_viewer_waits_for_the_run(viewer: App, watched: SweepFolder, visit: Visit) -> None:
    page = visit()
    page.goto(f"{viewer.url}/SQL?q=FROM+runs")
    settled(page, "SQL")
    expect(page.get_by_role("alert").get_by_text("A run is being measured, and viewers change nothing")).to_be_visible()
    nothing_changed(viewer, watched)


def test_forged_clicks_change_nothing(viewer: App, watched: SweepFolder,
                                      known_buttons: dict[str, dict[str, str]]) -> None:
    for title, (page, query) in pages(watched.sweep_id).items():
        with forge(viewer.url, page, query) as forger:
            for button_id in {*known_buttons[title].values(), *forger.buttons.values()}:
                forger.click(button_id)
                nothing_changed(viewer, watched)
