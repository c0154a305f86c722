"""The app dies in the middle of a sweep: the measuring goes on, and nothing of it is missing afterwards."""

from __future__ import annotations

import psutil
from browser.conftest import Visit
from browser.driven_app import App, wait_for
from browser.windows import LaunchPage, LivePage

from engine.home import SweepFolder
from engine.journal import Batches, list_journals, read_records
from engine.sweep_state import process_alive, read_process, read_state
from store.database import Store
from store.queries import count_rows

RUNS, BATCHES, PHASES = 12, 20, 2


def done(folder: SweepFolder) -> int:
    return read_state(folder).done


def journaled_batches(folder: SweepFolder) -> int:
    """Counted in the raw evidence, without the store's help."""
    records = [record for journal in list_journals(folder.runs) for record in read_records(journal)]
    return sum(len(record.items) for record in records if isinstance(record, Batches))


def test_a_sweep_outlives_the_app_that_started_it(app: App, visit: Visit) -> None:
    launch = LaunchPage(visit()).open(app.url, "misbehave")
    launch.fill(experiment="misbehave", name="outlives the app", repeats=1, grid={"seed": list(range(RUNS))},
                fixed={"batches": BATCHES, "batch_s": 0.05})
    launch.launch.click()
    first_window = LivePage(launch.page).arrived()
    first_window.wait_until_done(1)
    link = first_window.page.url
    (folder,) = app.sweeps()
    sweep_pid = read_process(folder)["pid"]
    # The server gives way to what is measured, and what it starts does not inherit that.
    assert psutil.Process(sweep_pid).nice() == psutil.Process().nice() < psutil.Process(app.pid).nice()

    app.kill()
    before = done(folder)
    assert before < RUNS, "it was over before the app was killed: give it more runs"
    wait_for(lambda: done(folder) > before, "another run is measured without the app")
    assert process_alive(folder) and read_process(folder)["pid"] == sweep_pid
    app.start()

    second_window = LivePage(visit())
    second_window.page.goto(link)
    assert second_window.arrived().sweep_id == folder.sweep_id
    second_window.finished(RUNS)
    # The window that was open all the time finds the new server by itself.
    first_window.finished(RUNS)
    assert app.sweeps() == [folder]
    assert read_state(folder).sessions == 1, "it was one session throughout, not resumed"

    wait_for(lambda: not process_alive(folder), "the sweep process has put its journals away")
    app.end()
    with Store.open(app.lab.home) as store:  # nothing is read in: this is what the app itself had
        had = count_rows(store.connection)
    assert (had["runs"], had["batches"], had["phases"]) == (RUNS, RUNS * BATCHES, RUNS * BATCHES * PHASES)
    assert had["batches"] == journaled_batches(folder)
    rebuilt = app.lab.json("rebuild")
    assert rebuilt["problems"] == []
    for table in ("sweeps", "runs", "batches", "phases", "stages", "metrics", "samples"):
        assert rebuilt["rows"][table] == had[table], table
