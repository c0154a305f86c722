"""What was deleted can be restored until it is erased; afterwards journals and store hold the same, without it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from engine import queue
from engine.erasing import erase
from engine.home import Home
from engine.params import InputError
from engine.people import annotate, delete
from store.browse import Filters, runs_frame
from store.compaction import compact, list_deleted
from store.database import Store
from store.queries import list_sweeps
from tests.store.journal_builder import fresh, rows_of
from tests.store.small_lab import write_sweep


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(tmp_path / "lab")
    write_sweep(home, 0)
    write_sweep(home, 1)
    return home


def shown(store: Store, which: str) -> list[str]:
    store.ingest()
    return sorted(runs_frame(store.connection, Filters(shown=which), 100)[0]["run_id"])


def test_a_delete_hides_and_a_restore_brings_back(home: Home) -> None:
    with Store.open(home) as store:
        everything = shown(store, "current")
        sweep_id, run_id = home.sweep_ids()[0], everything[-1]
        annotate(home, [sweep_id, run_id], "delete")
        assert shown(store, "current") == [r for r in everything if not r.startswith(sweep_id) and r != run_id]
        assert shown(store, "deleted") == sorted([r for r in everything if r.startswith(sweep_id)] + [run_id])
        assert [sweep["sweep_id"] for sweep in list_sweeps(store.connection)] == [home.sweep_ids()[1]]
        annotate(home, [sweep_id, run_id], "restore")
        assert shown(store, "current") == everything and shown(store, "deleted") == []


def test_compaction_erases_sweeps_and_runs_from_journals_and_store_alike(home: Home) -> None:
    first, second = home.sweep_ids()
    with Store.open(home) as store:
        kept = [run for run in shown(store, "current") if run.startswith(second)]
        annotate(home, [first, kept[0]], "delete")
        store.ingest()
        assert compact(store.connection, home, erase) == 2
        assert shown(store, "current") == kept[1:] and shown(store, "deleted") == []
        assert list_deleted(store.connection) == [] and compact(store.connection, home, erase) == 0
        assert rows_of(store.connection) == fresh(home)
    assert home.sweep_ids() == [second]
    assert not list(home.sweep(second).runs.glob(f"{kept[0]}.*")) and list(home.sweep(second).runs.iterdir())


def test_a_sweep_in_the_queue_is_not_erased(home: Home) -> None:
    first, second = home.sweep_ids()
    queue.enqueue(home, first)
    with Store.open(home) as store:
        annotate(home, [first, second], "delete")
        store.ingest()
        with pytest.raises(InputError, match="cancel it first"):
            compact(store.connection, home, erase)
        assert len(list_deleted(store.connection)) == 2
    assert home.sweep_ids() == [first, second]


def test_what_is_in_the_queue_is_not_deleted(home: Home) -> None:
    """It could not be watched or cancelled any more."""
    first, second = home.sweep_ids()
    queue.enqueue(home, first)
    with Store.open(home) as store:
        run_id = shown(store, "current")[-1]
    for target in (first, f"{first}-0000000000-0"):
        with pytest.raises(InputError, match="cancel its sweep first"):
            delete(home, [second, target])
    delete(home, [run_id])
    with Store.open(home) as store:
        assert shown(store, "deleted") == [run_id]


def test_an_interrupted_erasing_can_be_done_again(home: Home) -> None:
    """The files went and the process died before it was said: the next compaction forgets the rows."""
    first, second = home.sweep_ids()
    annotate(home, [first], "delete")
    with Store.open(home) as store:
        store.ingest()
        shutil.rmtree(home.sweep(first).path)
        assert list_deleted(store.connection) == [first]
        assert compact(store.connection, home, erase) == 1
        assert rows_of(store.connection) == fresh(home)
        assert [sweep["sweep_id"] for sweep in list_sweeps(store.connection)] == [second]


def test_archived_runs_are_put_away_and_found_again(home: Home) -> None:
    with Store.open(home) as store:
        run_id = shown(store, "current")[0]
        annotate(home, [run_id], "archive")
        assert run_id not in shown(store, "current") and shown(store, "archived") == [run_id]
        annotate(home, [run_id], "unarchive")
        assert run_id in shown(store, "current") and shown(store, "archived") == []


def test_filters_find_by_tag_note_status_parameter_and_text(home: Home) -> None:
    with Store.open(home) as store:
        run_id = shown(store, "current")[0]
        annotate(home, [run_id], "tag", "good")
        annotate(home, [home.sweep_ids()[1]], "note", "Odd: look AGAIN")
        store.ingest()

        def found(**filters: object) -> int:
            return runs_frame(store.connection, Filters(**filters), 100)[1]  # type: ignore[arg-type]

        assert found(tag="good") == 1 and found(tag="bad") == 0
        assert found(text="look again") == 3 and found(text="'; DROP TABLE runs; --") == 0
        assert found(statuses=["ok"]) == 6 and found(statuses=["failed"]) == 0
        assert found(sweep_id=home.sweep_ids()[0]) == 3 and found(text=run_id) == 1
        frame, total = runs_frame(store.connection, Filters(), 2)
        assert (len(frame), total) == (2, 6)
        assert list(frame["started_at"]) == sorted(frame["started_at"], reverse=True)
