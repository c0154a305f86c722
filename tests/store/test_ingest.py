"""Journals become rows exactly once: in one pass, in many, after a rebuild, over several attempts at a run."""

from __future__ import annotations

import itertools
import random
import tempfile
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.home import Home
from engine.journal import Effective, Event, Session, SessionEnd
from store.database import Store
from store.queries import count_rows, list_runs, list_sweeps, show_run
from tests.store.journal_builder import Pen, Script, Step, annotate, fresh, moment, rebuilt, rows_of


def test_a_sweep_gives_the_expected_rows_in_every_table(home: Home) -> None:
    script = Script(home).begin(planned_runs=3, name="two cells", tags=["first"], notes="why")
    script.say(Event(moment(100), "preparing data: 1 of 1", script.sweep_id))
    ok = script.run(0, batches=5, workers=2, effective={"workers": 1, "device": "cpu"}, events=["GPU lost"])
    failed = script.run(1, status="failed", reason="RuntimeError: no", batches=2, flushes=1)
    skipped = script.skip(2, "no such device")
    script.end().write()
    with Store.open(home) as store:
        report = store.ingest()
        counts = count_rows(store.connection)
        ask = store.connection.execute
        # Stages: 3 and finish, and 2 and finish. Metrics: 3 measured.
        assert report.rows == (4 + 3) + (5 + 2) + 3 * (5 + 2) + 2 * (1 + 1 + 4) + 2 * (1 + 2) + 3
        assert report.problems == []
        assert counts == {
            "sweeps": 1, "runs": 3, "attempts": 3, "parameters": 3 + 2 + 3 + 1 + 1, "stages": 4 + 3, "batches": 7,
            "phases": 21, "samples": 18, "metrics": 3 + 7 + 5, "phase_summaries": 6, "sample_summaries": 4,
            "environments": 1, "files": 1, "events": 2, "annotations": 2, "journals": 3, "published": 0,
            "published_regret": 0, "board_acts": 0, "frozen_figures": 0}
        assert ask("SELECT * EXCLUDE (spec) FROM sweeps").fetchall() == [
            (script.sweep_id, "two cells", "inference", "measured", "finished", None, *moments_of(script), 1, 3)]
        assert ask("SELECT run_id, attempt, status, reason, wall_s FROM runs ORDER BY run_id").fetchall() == [
            (ok, 1, "ok", None, 9.1), (failed, 1, "failed", "RuntimeError: no", 9.1),
            (skipped, 1, "skipped", "no such device", None)]
        assert ask("SELECT name, asked, effective FROM parameters WHERE run_id = ? ORDER BY ALL", [ok]).fetchall() == [
            ("batch_size", "8", None), ("device", None, '"cpu"'), ("seed", "0", None), ("threads", None, "2"),
            ("workers", "2", "1")]
        assert ask("SELECT stage, seconds FROM stages WHERE run_id = ? ORDER BY start_s", [failed]).fetchall() == [
            ("start_process", 0.03), ("prepare_data", 0.5), ("finish", 0.1)]
        assert ask("SELECT batch, items FROM batches WHERE run_id = ? ORDER BY batch", [ok]).fetchall() == [
            (number, 8) for number in range(5)]
        assert ask("SELECT phase, count(*), count(DISTINCT batch) FROM phases WHERE run_id = ? GROUP BY ALL ORDER BY 1",
                   [ok]).fetchall() == [("data_to_device", 5, 5), ("inference", 5, 5), ("load_data", 5, 5)]
        assert ask("SELECT device, metric, count(*) FROM samples WHERE run_id = ? GROUP BY ALL ORDER BY ALL",
                   [ok]).fetchall() == [("cpu", "others_cpu_cores", 6), ("cpu", "resident_bytes", 6)]
        assert ask("SELECT name FROM metrics WHERE run_id = ? AND origin = 'derived' ORDER BY 1", [ok]).fetchall() == [
            ("first_batch_s",), ("items",), ("overlapped_s",), ("steady_batch_s",), ("steady_batches",),
            ("steady_items_per_s",), ("unaccounted_s",)]
        assert ask("SELECT name, origin FROM metrics WHERE run_id = ? ORDER BY 1", [failed]).fetchall() == [
            ("first_batch_s", "derived"), ("items", "derived"), ("steady_batch_s", "derived"),
            ("steady_batches", "derived"), ("steady_items_per_s", "derived")]
        assert ask("SELECT facts->>'hostname' FROM environments").fetchall() == [("bench",)]
        assert ask("SELECT path, title, size_bytes FROM files").fetchall() == [
            (f"runs/{ok}/trace.json", "trace", 1234)]
        assert ask("SELECT sweep_id, run_id, text FROM events ORDER BY text").fetchall() == [
            (script.sweep_id, ok, "GPU lost"), (script.sweep_id, None, "preparing data: 1 of 1")]
        assert ask("SELECT target, field, value FROM annotations ORDER BY ALL").fetchall() == [
            (script.sweep_id, "note", "why"), (script.sweep_id, "tag", "first")]
        assert ask("SELECT complete, unread_bytes, problem FROM journals GROUP BY ALL").fetchall() == [(True, 0, None)]


def moments_of(script: Script) -> tuple[datetime, datetime]:
    """When the sweep was created and when it ended, in UTC and without a zone."""
    created, ended = script.steps[0].records[0], script.steps[-1].records[0]
    assert isinstance(created, Session) and isinstance(ended, SessionEnd)
    return (datetime.fromisoformat(created.at).replace(tzinfo=None),
            datetime.fromisoformat(ended.at).replace(tzinfo=None))


def test_a_second_pass_adds_nothing(home: Home) -> None:
    script = Script(home).begin(planned_runs=3)
    script.run(0)
    script.run(1, status="oom", reason="MemoryError")
    still_running = script.run(2, status=None)
    script.write()
    with Store.open(home) as store:
        assert store.ingest().rows > 0
        before = rows_of(store.connection)
        assert store.ingest() == (0, [], False)
        assert rows_of(store.connection) == before
    with Store.open(home) as store:
        assert store.ingest() == (0, [], False)
        assert rows_of(store.connection) == before == fresh(home)
        assert show_run(store.connection, still_running)["status"] == "running"


def test_a_sweep_asked_for_twice_in_one_pass_is_read_once(home: Home) -> None:
    script = Script(home).begin()
    script.run(0)
    script.end().write()
    with Store.in_memory(home, [script.sweep_id, script.sweep_id]) as store:
        assert rows_of(store.connection) == fresh(home)


def test_what_took_effect_is_said_again_later(home: Home) -> None:
    """The last word counts, and a value nobody asked for is still one row."""
    script = Script(home).begin()
    run_id = script.run(0, status=None)
    own = script.folder.run_journal(run_id, 1)
    script.steps += [Step(own, [Effective(run_id, {"workers": workers, "device": f"cuda:{workers}"})])
                     for workers in (5, 4, 3)]
    pen = Pen()
    with Store.open(home) as store:
        for step in script.steps:
            pen.write([step])
            store.ingest()
        pen.close()
        incremental = rows_of(store.connection)
        effective = list_runs(store.connection)[0]["effective"]
    assert effective == {"threads": 2, "workers": 3, "device": "cuda:3"}
    assert fresh(home) == incremental


# -- several attempts at a run -----------------------------------------------------------------------------------------


def test_a_second_attempt_replaces_the_first(home: Home) -> None:
    """In every table but `attempts`, whether both are read in one pass or in two."""
    script = Script(home).begin(planned_runs=1)
    run_id = script.run(0, status="failed", reason="once", batches=9, events=["lost a device"], phases=["load_data"],
                        effective={"device": "cuda"})
    script.end()
    first = len(script.steps)
    script.begin(action="resume")
    script.run(0, batches=2, flushes=1)
    script.end()
    pen = Pen()
    pen.write(script.steps[:first])
    with Store.open(home) as store:
        store.ingest()
        assert show_run(store.connection, run_id)["effective"] == {"threads": 2, "device": "cuda"}
        pen.write(script.steps[first:])
        pen.close()
        store.ingest()
        run = show_run(store.connection, run_id)
        rows = rows_of(store.connection)
    assert (run["status"], run["reason"], run["attempt"]) == ("ok", None, 2)
    assert [(attempt["attempt"], attempt["status"], attempt["reason"]) for attempt in run["attempts"]] == [
        (1, "failed", "once"), (2, "ok", None)]
    assert run["effective"] == {"threads": 2}
    assert run["events"] == []
    assert {phase: row["count"] for phase, row in run["phases"].items()} == {
        "load_data": 2, "data_to_device": 2, "inference": 2}
    assert len(rows["batches"]) == 2
    assert not any(f"{run_id}.1.jsonl" in row for row in rows["journals"])
    assert rows == fresh(home) == rebuilt(home)


def test_a_killed_sweep_and_its_resume(home: Home) -> None:
    script = Script(home).begin(planned_runs=2)
    script.run(0)
    killed = script.run(1, status=None, batches=3)
    dead = len(script.die(killed).steps)
    script.begin(planned_runs=2, action="resume")
    script.run(1)
    script.end()
    pen = Pen()
    pen.write(script.steps[:dead])
    with Store.open(home) as store:
        store.ingest()
        assert list_sweeps(store.connection)[0]["runs"] == {"killed": 1, "ok": 1}
        assert list_sweeps(store.connection)[0]["status"] == "interrupted"
        run = show_run(store.connection, killed)
        assert run["reason"] == "the sweep process ended during this run"
        assert run["phases"]["inference"]["count"] == 3
        pen.write(script.steps[dead:])
        pen.close()
        store.ingest()
        assert list_sweeps(store.connection)[0]["runs"] == {"ok": 2}
        assert [a["status"] for a in show_run(store.connection, killed)["attempts"]] == ["killed", "ok"]
        assert rows_of(store.connection) == fresh(home)


# -- any cut points ----------------------------------------------------------------------------------------------------


class PlannedAttempt(NamedTuple):
    cell: int
    status: str
    batches: int
    flushes: int
    workers: int
    with_event: bool


class PlannedSession(NamedTuple):
    attempts: list[PlannedAttempt]
    ending: str
    compress: bool


ATTEMPTS = st.builds(
    PlannedAttempt, st.integers(0, 2), st.sampled_from(["ok", "failed", "oom", "killed", "skipped"]),
    st.integers(0, 4), st.integers(1, 3), st.integers(0, 3), st.booleans())
SESSIONS = st.lists(st.builds(
    PlannedSession, st.lists(ATTEMPTS, max_size=3, unique_by=lambda attempt: attempt.cell),
    st.sampled_from(["finished", "cancelled", "killed", "killed and torn"]), st.booleans()), min_size=1, max_size=3)


def tell(script: Script, sessions: list[PlannedSession]) -> dict[str, tuple[int, str, int]]:
    """The sweep's steps; and per run what the store must say at the end: attempt, status and number of batches."""
    expected: dict[str, tuple[int, str, int]] = {}
    for number, session in enumerate(sessions):
        script.begin(planned_runs=3, action="resume" if number else "launch", tags=["tagged"])
        running = ""
        for index, attempt in enumerate(session.attempts):
            last = index == len(session.attempts) - 1
            run_id = script.run_id(attempt.cell)
            dies = last and session.ending.startswith("killed")
            number_of_attempt = expected.get(run_id, (0, "", 0))[0] + 1
            if attempt.status == "skipped" and not dies:
                script.skip(attempt.cell)
                expected[run_id] = (number_of_attempt, "skipped", 0)
                continue
            script.run(attempt.cell, status=None if dies else attempt.status, batches=attempt.batches,
                       flushes=attempt.flushes, workers=attempt.workers, events=["seen"] * attempt.with_event,
                       effective={"workers": number})
            running = run_id if dies else ""
            expected[run_id] = (number_of_attempt, "killed" if dies else attempt.status, attempt.batches)
        if session.ending.startswith("killed"):
            script.die(*([running] if running else []), torn=session.ending.endswith("torn"))
        else:
            script.end(session.ending)
        if session.compress:
            script.compress()
    return expected


@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(first=SESSIONS, second=SESSIONS, mixing=st.randoms(use_true_random=False), data=st.data())
def test_passes_at_any_moments_end_in_the_same_rows(
        first: list[PlannedSession], second: list[PlannedSession], mixing: random.Random, data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as folder:
        home = Home(Path(folder))
        scripts = [Script(home, "20260301-090000-aaaa"), Script(home, "20260301-093000-bbbb", starts_at=1800)]
        expected = tell(scripts[0], first) | tell(scripts[1], second)
        steps = interleave(mixing, *(script.steps for script in scripts))
        cuts = data.draw(st.lists(st.integers(1, len(steps) - 1), max_size=4, unique=True).map(sorted), label="cuts")
        pen = Pen()
        store = Store.open(home)
        try:
            for start, end in itertools.pairwise([0, *cuts]):
                pen.write(steps[start:end])
                match data.draw(st.sampled_from(["all", "one sweep", "reopen", "compare"]), label="then"):
                    case "one sweep":
                        store.ingest([mixing.choice(scripts).sweep_id])
                        continue
                    case "reopen":
                        store.close()
                        store = Store.open(home)
                    case "compare":
                        store.ingest()
                        assert rows_of(store.connection) == fresh(home)
                store.ingest()
            pen.write(steps[cuts[-1] if cuts else 0:])
            pen.close()
            annotate(home, "someone", (scripts[0].sweep_id, "note", "done", 5000))
            store.ingest()
            rows = rows_of(store.connection)
            assert {run["run_id"]: (run["attempt"], run["status"], _batches(store, run["run_id"]))
                    for run in list_runs(store.connection)} == expected
            assert len(rows["attempts"]) == sum(attempt for attempt, _, _ in expected.values())
        finally:
            store.close()
        assert rows == fresh(home)
        assert rows == rebuilt(home)


def interleave(mixing: random.Random, *queues: list[Step]) -> list[Step]:
    """Sweeps that take turns at random, each in its own order."""
    turns = [number for number, queue in enumerate(queues) for _ in queue]
    mixing.shuffle(turns)
    waiting = [iter(queue) for queue in queues]
    return [next(waiting[turn]) for turn in turns]


def _batches(store: Store, run_id: str) -> int:
    return int(store.connection.execute("SELECT count(*) FROM batches WHERE run_id = ?", [run_id]).fetchall()[0][0])
