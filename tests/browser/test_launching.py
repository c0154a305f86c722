"""Launching from the form: one sweep per click that was meant, a queue for two, and nothing from moving about."""

from __future__ import annotations

import re
from typing import Any

from browser.conftest import Visit
from browser.driven_app import App, wait_for
from browser.windows import HomePage, LaunchPage, LivePage, settled
from playwright.sync_api import expect

from engine.queue import read_queue
from engine.sweep_state import read_state


def quick(name: str, runs: int = 2, batch_s: float = 0.01) -> dict[str, Any]:
    return {"experiment": "misbehave", "name": name, "repeats": 1, "grid": {"seed": list(range(runs))},
            "fixed": {"batches": 20, "batch_s": batch_s}}


def filled(app: App, visit: Visit, **sweep: Any) -> LaunchPage:
    launch = LaunchPage(visit()).open(app.url, "misbehave")
    launch.fill(**sweep)
    return launch


def names(app: App) -> list[str]:
    """What was launched, by name: other tests of this file have their own."""
    states = [read_state(folder) for folder in app.sweeps()]
    return [state.specs[0]["name"] for state in states if state.specs]


def test_a_double_click_starts_one_sweep(app: App, visit: Visit) -> None:
    launch = filled(app, visit, **quick("double click"))
    launch.launch.dblclick()
    LivePage(launch.page).arrived().finished(2)
    assert names(app).count("double click") == 1


def test_two_clicks_in_short_order_start_one_sweep(app: App, visit: Visit) -> None:
    launch = filled(app, visit, **quick("impatient"))
    # In the page itself, so that nothing of the test comes between the clicks.
    launch.launch.evaluate("button => { button.click(); setTimeout(() => button.click(), 50) }")
    LivePage(launch.page).arrived().finished(2)
    assert names(app).count("impatient") == 1


def test_reload_and_back_launch_nothing(app: App, visit: Visit) -> None:
    launch = filled(app, visit, **quick("once"))
    launch.launch.click()
    page = launch.page
    live = LivePage(page).arrived()
    page.reload()
    live.arrived().finished(2)
    page.go_back()
    settled(page, "Launch")
    page.reload()
    settled(page, "Launch")
    page.go_forward()
    live.arrived().finished(2)
    assert names(app).count("once") == 1


def test_launching_again_from_the_same_window_is_another_sweep(app: App, visit: Visit) -> None:
    """Two clicks on one button are one launch; coming back to the form and launching is a second one."""
    launch = filled(app, visit, **quick("first"))
    page = launch.page
    launch.launch.click()
    first = LivePage(page).arrived().sweep_id
    page.get_by_role("link", name="Launch", exact=True).click()
    settled(page, "Launch")
    launch.fill(**quick("second"))
    launch.launch.click()
    live = LivePage(page).arrived()
    expect(page).not_to_have_url(re.compile(first))
    live.finished(2)
    page.get_by_role("link", name="Launch", exact=True).click()
    settled(page, "Launch")
    expect(launch.launch).to_be_enabled()
    launch.launch.click()
    wait_for(lambda: len([name for name in names(app) if name in ("first", "second")]) == 3, "a third sweep")


def test_two_windows_launch_two_sweeps_which_take_turns(app: App, visit: Visit) -> None:
    windows = [filled(app, visit, **quick(name, batch_s=0.3)) for name in ("left", "right")]
    for window in windows:
        window.launch.click(no_wait_after=True)
    lives = [LivePage(window.page).arrived() for window in windows]
    ids = [live.sweep_id for live in lives]
    assert len(set(ids)) == 2
    wait_for(lambda: any(entry.state == "measuring" for entry in read_queue(app.lab.home).entries), "one measures")
    entries = [entry for entry in read_queue(app.lab.home).entries if entry.sweep_id in ids]
    assert sorted(entry.state for entry in entries) == ["measuring", "waiting"]
    waiting = next(live for live in lives if live.sweep_id == next(e.sweep_id for e in entries if e.state == "waiting"))
    expect(waiting.page.get_by_role("main").get_by_text(re.compile("in the queue")).first).to_be_visible()
    for live in lives:
        live.finished(2)
    assert sorted(name for name in names(app) if name in ("left", "right")) == ["left", "right"]


def test_home_tells_by_itself_that_a_sweep_has_ended(app: App, visit: Visit) -> None:
    launch = filled(app, visit, **quick("watched from home", batch_s=0.3))
    launch.launch.click()
    LivePage(launch.page).arrived()
    home = visit()
    HomePage(home).open(app.url)
    expect(home.get_by_text(re.compile("[01] of 2 runs done"))).to_be_visible()
    expect(home.get_by_text("Nothing is being measured.")).to_be_visible()
    expect(home.get_by_text("Ended: watched from home")).to_be_visible()
    expect(home.get_by_role("main").get_by_text(re.compile("2 ok")).first).to_be_visible()


def test_leaving_home_while_it_is_redrawn_breaks_no_page(app: App, visit: Visit) -> None:
    launch = filled(app, visit, **quick("long", runs=50, batch_s=0.4))
    launch.launch.click()
    watched = LivePage(launch.page).arrived()
    page = visit()
    for number in range(4):
        HomePage(page).open(app.url)
        page.wait_for_timeout(2_500 + 250 * number)  # about when the card is drawn again
        page.get_by_role("main").get_by_role("link", name="Watch it live").first.click()
        settled(page, "Live")
    app.lab.json("cancel", watched.sweep_id)
