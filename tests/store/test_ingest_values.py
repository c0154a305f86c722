"""Odd values on their way from a journal into the store: not finite, negative, huge, empty, any text, very many."""

from __future__ import annotations

import math
import re
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.home import Home
from engine.journal import Batches, Event, Metric, PhaseColumn, Samples, Stage
from store.database import Store
from store.export import export_sweep
from store.queries import list_runs, list_sweeps, show_run
from tests.store.journal_builder import Pen, Script, Step, annotate, fresh, rebuilt, rows_of

NASTY = "<script>alert('x')</script> ![x](javascript:alert(1)) =cmd|'/C x'!A0 \x00 \u202e 漢字 🧪 \ufeff\r\n\t\"'; --"


def one_run(home: Home, **run: Any) -> tuple[Script, str]:
    script = Script(home).begin()
    return script, script.run(0, **run)


def test_metrics_that_are_not_finite_keep_their_value(home: Home) -> None:
    script, run_id = one_run(home, metrics={"loss": "nan", "ratio": "inf", "gain": "-inf", "small": 5e-324})
    script.end().write()
    with Store.open(home) as store:
        store.ingest()
        metrics = list_runs(store.connection)[0]["metrics"]
        assert math.isnan(metrics["loss"])
        assert (metrics["ratio"], metrics["gain"], metrics["small"]) == (math.inf, -math.inf, 5e-324)
        assert store.ingest().rows == 0
        assert rows_of(store.connection) == fresh(home)
        assert show_run(store.connection, run_id)["units"] == {
            "end_to_end_s": "s", "first_batch_s": "s", "items": "items", "overlapped_s": "s", "unaccounted_s": "s",
            "steady_batch_s": "s", "steady_batches": "batches", "steady_items_per_s": "items/s"}


@pytest.mark.parametrize("window", ["nan", "inf", "-inf", 0, -1.0])
def test_a_window_that_cannot_be_is_no_reason_to_stop(home: Home, window: float | str) -> None:
    script, _ = one_run(home, metrics={"end_to_end_s": window})
    script.end().write()
    with Store.open(home) as store:
        store.ingest()
        run = list_runs(store.connection)[0]
    assert run["status"] == "ok"
    assert str(run["metrics"]["end_to_end_s"]) == str(float(window))


@pytest.mark.parametrize("seconds", [[0.0, 0.0, 0.0], [-1.0, 2.0, -3.0], [1e300, 1e300, 1e300], [1e-9, 1e9, 0.0]])
def test_zero_negative_and_huge_durations_are_kept_as_they_are(home: Home, seconds: list[float]) -> None:
    script, run_id = one_run(home, batches=0, status=None)
    own = script.folder.run_journal(run_id, 1)
    script.steps.append(Step(own, [
        Batches(run_id, 0, [8] * 3, [0.0] * 3, seconds, [PhaseColumn("load_data", "host", [0.0] * 3, list(seconds))]),
        Stage(run_id, "measure", -1.0, seconds[0]), Metric(run_id, "end_to_end_s", seconds[1], "s"),
        Samples(run_id, -5.0, [("cpu", "others_cpu_cores", seconds[0])])]))
    script.die(run_id, torn=False)
    script.write()
    with Store.open(home) as store:
        store.ingest()
        found = store.connection.execute("SELECT seconds FROM phases ORDER BY batch").fetchall()
        assert [row[0] for row in found] == seconds
        summary = show_run(store.connection, run_id)["phases"]["load_data"]
        assert summary["median_s"] == sorted(seconds)[1]
        assert summary["total_s"] == sum(seconds)
        assert rows_of(store.connection) == fresh(home)


def test_a_run_is_marked_noisy_when_it_has_ended(home: Home) -> None:
    script = Script(home).begin(planned_runs=3)
    script.run(0, metrics={"gpu0_utilization_before": 0.5})
    busy = script.run(1, status=None)
    script.say(*(Samples(busy, float(second), [("cpu", "others_cpu_cores", 3.0)]) for second in range(60)))
    script.die(busy, torn=False)
    script.begin(action="resume", facts={"cores_allowed": None}, environment_id="unknown cores")
    script.run(2, samples=0)
    script.end().write()
    with Store.open(home) as store:
        store.ingest()
        runs = list_runs(store.connection)
    assert [run["noisy"] for run in runs[:2]] == [True, True]
    assert runs[0]["noise_reason"] == "gpu0 was 50% busy before the run began (limit 5%)"
    assert runs[1]["noise_reason"].endswith("of 4 cores busy (limit 0.60)")
    assert (runs[2]["noisy"], runs[2]["noise_reason"]) == (None, None)


def test_phases_that_some_batches_do_not_have(home: Home) -> None:
    script, run_id = one_run(home, batches=0, status=None)
    script.steps.append(Step(script.folder.run_journal(run_id, 1), [Batches(
        run_id, 0, [8, 8, 8], [0.0, 1.0, 2.0], [1.0, 1.0, 1.0],
        [PhaseColumn("inference", "device", [0.0, 1.0, 2.0], [0.5, 0.5, 0.5]),
         PhaseColumn("score", "host", [None, 1.5, None], [None, 0.25, None]),
         PhaseColumn("backward", "host", [None] * 3, [None] * 3)])]))
    script.die(run_id, torn=False)
    script.write()
    with Store.open(home) as store:
        store.ingest()
        phases = show_run(store.connection, run_id)["phases"]
    assert {name: (row["count"], row["clock"]) for name, row in phases.items()} == {
        "inference": (3, "device"), "score": (1, "host")}
    # It was not in batch 0: that is not known, and not zero.
    assert phases["score"]["first_s"] is None


def test_empty_lists_are_no_rows(home: Home) -> None:
    script, run_id = one_run(home, batches=0, status=None)
    script.steps.append(Step(script.folder.run_journal(run_id, 1), [
        Batches(run_id, 0, [], [], [], []),
        Batches(run_id, 0, [], [], [], [PhaseColumn("load_data", "host", [], [])])]))
    script.say(Samples(run_id, 0.0, []))
    script.die(run_id, torn=False)
    script.begin(planned_runs=0, action="resume", tags=[], notes="", facts={}, environment_id="empty")
    script.end().write()
    with Store.open(home) as store:
        store.ingest()
        assert store.connection.execute("SELECT count(*) FROM batches").fetchall() == [(0,)]
        run = show_run(store.connection, run_id)
        assert run["phases"] == {}
        assert not {"first_batch_s", "steady_batch_s", "unaccounted_s"} & run["metrics"].keys()
        assert rows_of(store.connection) == fresh(home)


def test_very_long_names_with_markup(home: Home, tmp_path: Path) -> None:
    long = NASTY * (10_000 // len(NASTY) + 1)
    assert len(long) > 10_000
    script = Script(home).begin(name=long, notes=long, tags=[long])
    run_id = script.run(0, status=None, asked={"data": long, "note": {"deep": [long]}}, effective={"data": long},
                        events=[long])
    script.steps.append(Step(script.folder.run_journal(run_id, 1), [
        Metric(run_id, long, 1.5, long), Stage(run_id, long, 0.0, 1.0),
        Batches(run_id, 0, [1], [0.0], [1.0], [PhaseColumn(long, long, [0.0], [1.0])])]))
    script.say(Samples(run_id, 0.0, [(long, long, 1.0)]))
    script.end("failed", long).write()
    with Store.open(home) as store:
        store.ingest()
        sweep = list_sweeps(store.connection)[0]
        assert (sweep["name"], sweep["reason"]) == (long, long)
        run = show_run(store.connection, run_id)
        assert run["params"] | {"seed": 0} == {"seed": 0, "batch_size": 8, "workers": 0, "data": long,
                                               "note": {"deep": [long]}}
        assert run["effective"]["data"] == long
        assert run["metrics"][long] == 1.5
        assert [event["text"] for event in run["events"]] == [long]
        assert long in [stage["stage"] for stage in run["stages"]]
        assert store.connection.execute("SELECT tag FROM tags").fetchall() == [(long,)]
        assert rows_of(store.connection) == fresh(home)


@settings(max_examples=10, deadline=None)
@given(st.lists(st.text(st.characters(exclude_categories=["Cs"])), min_size=1, max_size=8))
def test_any_text_comes_out_as_it_went_in(texts: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        home = Home(Path(folder))
        script = Script(home).begin(name=texts[0], tags=texts, notes=texts[-1])
        run_id = script.run(0, asked={text: text for text in texts}, events=texts, status="failed", reason=texts[0])
        script.end().write()
        with Store.in_memory(home, [script.sweep_id]) as store:
            run = show_run(store.connection, run_id)
            assert {name: run["params"][name] for name in texts} == {name: name for name in texts}
            assert sorted(event["text"] for event in run["events"]) == sorted(texts)
            assert (run["reason"] or "") == texts[0]
            tags = store.connection.execute("SELECT tag FROM tags").fetchall()
            assert sorted(tag for tag, in tags) == sorted(set(texts))


def test_a_file_name_that_is_not_unicode_in_a_reason(home: Home) -> None:
    """Python shows the stray byte of such a name as half a surrogate pair, which no UTF-8 text can hold."""
    script = Script(home).begin()
    run_id = script.run(0, status="failed", reason="DataError: cannot read /data/caf\udce9.jpg")
    script.end().write()
    with Store.open(home) as store:
        assert store.ingest().problems == []
        run = show_run(store.connection, run_id)
    assert run["status"] == "failed"
    assert re.fullmatch("DataError: cannot read /data/caf.+[.]jpg", run["reason"])


def test_many_runs_in_one_sweep(home: Home, tmp_path: Path) -> None:
    """Thousands, read while the sweep runs, asked for, exported, and built again from the start."""
    runs = 2000
    script = Script(home).begin(planned_runs=runs)
    for cell in range(runs):
        if cell % 10:
            script.skip(cell)
        else:
            script.run(cell, batches=2, flushes=1, samples=0)
    half = len(script.end().steps) // 2
    pen = Pen()
    with Store.open(home) as store:
        pen.write(script.steps[:half])
        store.ingest()
        pen.write(script.steps[half:])
        pen.close()
        store.ingest()
        assert list_sweeps(store.connection)[0]["runs"] == {"ok": runs // 10, "skipped": runs - runs // 10}
        assert len(list_runs(store.connection, script.sweep_id)) == runs
        assert show_run(store.connection, script.run_id(runs - 10))["phases"]["inference"]["count"] == 2
        assert export_sweep(store.connection, script.sweep_id, "runs", "parquet", tmp_path / "runs.parquet") == runs
        rows = rows_of(store.connection)
    assert rows == rebuilt(home)


# -- what people did ---------------------------------------------------------------------------------------------------


def test_tags_and_notes_newest_wins(home: Home) -> None:
    script = Script(home).begin(tags=["slow", "gone"], notes="from the file")
    run_id = script.run(0)
    script.end().write()
    sweep_id = script.sweep_id
    with Store.open(home) as store:
        store.ingest()
        assert tags(store) == {(sweep_id, "slow"), (sweep_id, "gone")}
        assert notes(store) == {sweep_id: "from the file"}
        # Two processes, whose journals are not read in the order things happened.
        annotate(home, "zz", (sweep_id, "untag", "gone", 2000), (run_id, "tag", "best", 2100),
                 (sweep_id, "note", "first thought", 2200))
        annotate(home, "aa", (sweep_id, "note", "second thought", 3000), (run_id, "tag", "odd", 3000),
                 (run_id, "untag", "odd", 3001), (run_id, "tag", "odd", 3002), (run_id, "untag", "best", 2050))
        store.ingest()
        assert tags(store) == {(sweep_id, "slow"), (run_id, "best"), (run_id, "odd")}
        assert notes(store) == {sweep_id: "second thought"}
        annotate(home, "bb", (sweep_id, "note", "", 4000))
        store.ingest()
        assert notes(store) == {sweep_id: ""}
        assert store.ingest().rows == 0
        rows = rows_of(store.connection)
    assert rows == fresh(home) == rebuilt(home)


def test_a_tag_taken_back_in_the_same_millisecond_is_gone(home: Home) -> None:
    annotate(home, "aa", ("s", "tag", "x", 1), ("s", "untag", "x", 1), ("s", "note", "old", 1), ("s", "note", "new", 1))
    with Store.open(home) as store:
        store.ingest()
        assert tags(store) == set()
        assert notes(store) == {"s": "new"}
    assert rebuilt(home) == fresh(home)


def test_annotations_only_and_a_lab_without_sweeps(home: Home) -> None:
    annotate(home, "aa", ("no-such-sweep", "tag", NASTY, 1))
    with Store.open(home) as store:
        store.ingest()
        assert tags(store) == {("no-such-sweep", NASTY)}
        assert list_sweeps(store.connection) == []
    assert rebuilt(home) == fresh(home)


def test_an_extension_without_a_name_keeps_the_sweeps_name(home: Home) -> None:
    script = Script(home).begin(planned_runs=1, name="batch size x workers")
    script.run(0)
    script.end()
    script.begin(planned_runs=2, action="extend", name="")
    script.say(Event(script.now(), "extended", script.sweep_id))
    script.run(1)
    script.end().write()
    with Store.open(home) as store:
        store.ingest()
        assert [(s["name"], s["sessions"], s["runs"]) for s in list_sweeps(store.connection)] == [
            ("batch size x workers", 2, {"ok": 2})]


def tags(store: Store) -> set[tuple[str, str]]:
    return set(store.connection.execute("SELECT target, tag FROM tags").fetchall())


def notes(store: Store) -> dict[str, str]:
    return dict(store.connection.execute("SELECT target, note FROM notes").fetchall())
