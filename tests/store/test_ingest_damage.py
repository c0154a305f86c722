"""What goes wrong with journals and with the process that reads them: torn tails, flipped bytes, kill -9, packing."""

from __future__ import annotations

import random
import tempfile
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.home import Home
from engine.journal import Batches, RunEnd, RunStart, compress_journal, read_blocks
from store.database import Store
from store.queries import list_problems, list_runs, show_run
from tests.store.journal_builder import TORN_BYTES, Pen, Script, fresh, rebuilt, rows_of, write_steps
from tests.store.store_process import StoreProcess


def sweep_of(home: Home, runs: int, sweep_id: str = "20260301-090000-aaaa") -> Script:
    script = Script(home, sweep_id).begin(planned_runs=runs)
    for cell in range(runs):
        script.run(cell, batches=6, flushes=3)
    return script.end()


def batches_by_run(store: Store) -> dict[str, int]:
    found = store.connection.execute("SELECT run_id, count(*) FROM batches GROUP BY run_id").fetchall()
    return {run["run_id"]: dict(found).get(run["run_id"], 0) for run in list_runs(store.connection)}


def blocks_of(journal: Path) -> list[tuple[int, int]]:
    """Where each block of a journal ends, and how many batches there are up to there."""
    ends, batches = [], 0
    for block in read_blocks(journal):
        batches += sum(len(record.items) for record in block.records if isinstance(record, Batches))
        ends.append((block.end, batches))
    return ends


# -- torn tails --------------------------------------------------------------------------------------------------------


def test_a_torn_tail_is_told_and_nothing_else_is_lost(home: Home) -> None:
    script = Script(home).begin(planned_runs=2)
    script.run(0)
    killed = script.run(1, status=None, batches=5)
    own = script.folder.run_journal(killed, 1)
    before = len(script.steps)
    script.die(killed)
    pen = Pen()
    pen.write(script.steps[:before])
    whole = own.stat().st_size
    pen.write(script.steps[before:])
    pen.close()
    torn_bytes = own.stat().st_size - whole
    assert torn_bytes > TORN_BYTES
    with Store.open(home) as store:
        assert store.ingest().problems == []
        problems = list_problems(store.connection)
        assert [(Path(p["journal"]).name, p["problem"]) for p in problems] == [
            (own.name, None), ("session-0001.jsonl", None)]
        assert (problems[0]["read_bytes"], problems[0]["unread_bytes"]) == (whole, torn_bytes)
        run = show_run(store.connection, killed)
        assert (run["status"], run["phases"]["inference"]["count"]) == ("killed", 5)
        assert "never_seen" not in [stage["stage"] for stage in run["stages"]]
        rows = rows_of(store.connection)
    assert rows == fresh(home) == rebuilt(home)


PLACES = st.lists(st.floats(0, 1, exclude_max=True), min_size=1, max_size=20)


@settings(max_examples=6, deadline=None)
@given(PLACES)
def test_a_journal_cut_off_anywhere_gives_its_whole_blocks(shares: list[float]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        home = Home(Path(folder))
        script = sweep_of(home, len(shares) + 1).write()
        batches, left = {script.run_id(len(shares)): 6}, {}
        for cell, share in enumerate(shares):
            own = script.folder.run_journal(script.run_id(cell), 1)
            size = int(share * own.stat().st_size)
            read, batches[script.run_id(cell)] = max(end for end in [(0, 0), *blocks_of(own)] if end[0] <= size)
            with own.open("r+b") as file:
                file.truncate(size)
            if size > read:
                left[f"sweeps/{script.sweep_id}/runs/{own.name}"] = (read, size - read, None)
        with Store.in_memory(home, [script.sweep_id]) as store:
            assert batches_by_run(store) == batches
            assert {p["journal"]: (p["read_bytes"], p["unread_bytes"], p["problem"])
                    for p in list_problems(store.connection)} == left


# -- damage ------------------------------------------------------------------------------------------------------------


@settings(max_examples=6, deadline=None)
@given(PLACES, st.randoms(use_true_random=False))
def test_a_flipped_byte_in_a_run_journal_costs_its_block(shares: list[float], change: random.Random) -> None:
    """And the one behind it where the byte was in the line that separates them; everything else is there."""
    with tempfile.TemporaryDirectory() as folder:
        home = Home(Path(folder))
        script = sweep_of(home, len(shares) + 1).write()
        least, damaged = {script.run_id(len(shares)): 6}, set()
        for cell, share in enumerate(shares):
            own = script.folder.run_journal(script.run_id(cell), 1)
            content = bytearray(own.read_bytes())
            at = int(share * len(content))
            ends = [(0, 0), *blocks_of(own)]
            hit = max(index for index, (end, _) in enumerate(ends) if end <= at)
            least[script.run_id(cell)] = 6 - (ends[min(hit + 2, len(ends) - 1)][1] - ends[hit][1])
            content[at] ^= change.randint(1, 255)
            own.write_bytes(content)
            damaged.add(f"sweeps/{script.sweep_id}/runs/{own.name}")
        with Store.in_memory(home, [script.sweep_id]) as store:
            found = batches_by_run(store)
            assert all(least[run_id] <= found.get(run_id, 0) <= 6 for run_id in least)
            assert {p["journal"] for p in list_problems(store.connection)} == damaged


def test_damage_is_reported_with_file_and_byte_and_other_journals_go_on(home: Home) -> None:
    script, other = sweep_of(home, 3).write(), sweep_of(home, 3, "20260301-100000-bbbb").write()
    own = script.folder.run_journal(script.run_id(1), 1)
    ends = blocks_of(own)
    content = bytearray(own.read_bytes())
    content[ends[2][0] + 2] ^= 1
    own.write_bytes(content)
    with Store.open(home) as store:
        report = store.ingest()
        assert len(report.problems) == 1
        assert report.problems[0].startswith(f"{own} is damaged at byte {ends[2][0]}: ")
        assert [p["problem"] for p in list_problems(store.connection)] == report.problems
        lost = ends[3][1] - ends[2][1]
        expected = {script.run_id(0): 6, script.run_id(1): 6 - lost, script.run_id(2): 6}
        expected |= {other.run_id(cell): 6 for cell in range(3)}
        assert batches_by_run(store) == expected
        assert {run["status"] for run in list_runs(store.connection)} == {"ok"}
        before = rows_of(store.connection)
        assert store.ingest().rows == 0
        assert rows_of(store.connection) == before == fresh(home)


def test_damage_in_the_middle_of_a_sweeps_own_journal(home: Home) -> None:
    script, other = sweep_of(home, 3).write(), sweep_of(home, 3, "20260301-100000-bbbb").write()
    ends_of_first_run = next(block.end for block in read_blocks(script.session_journal)
                             if any(isinstance(record, RunEnd) for record in block.records))
    content = bytearray(script.session_journal.read_bytes())
    content[ends_of_first_run + 10] ^= 1
    script.session_journal.write_bytes(content)
    with Store.open(home) as store:
        assert store.ingest().problems == [p["problem"] for p in list_problems(store.connection)] != []
        assert store.ingest() == (0, [], False)
        # The block said that the second run began: without it nothing of that run can be placed.
        assert batches_by_run(store) == {script.run_id(cell): 6 for cell in (0, 2)} | {
            other.run_id(cell): 6 for cell in range(3)}
        assert rows_of(store.connection) == fresh(home)


def test_the_end_of_a_run_whose_beginning_was_damaged_away(home: Home) -> None:
    """A dead sweep's run is closed in a later journal; that must not stop the rebuild when the first one is damaged."""
    script = Script(home).begin(planned_runs=2)
    script.run(0)
    script.die(script.run(1, status=None), torn=False)
    script.write()
    first = script.folder.session_journal(1)
    content = bytearray(first.read_bytes())
    content[next(start for start, _ in block_starts(first, RunStart, script.run_id(1))) + 5] ^= 1
    first.write_bytes(content)
    with Store.open(home) as store:
        assert len(store.ingest().problems) == 1
        assert batches_by_run(store) == {script.run_id(0): 4}
        assert store.connection.execute("SELECT DISTINCT run_id FROM batches").fetchall() == [(script.run_id(0),)]


def block_starts(journal: Path, kind: type, run_id: str) -> list[tuple[int, int]]:
    """Where the blocks begin and end that hold a record of this kind about this run."""
    found, start = [], 0
    for block in read_blocks(journal):
        if any(isinstance(record, kind) and record.run_id == run_id for record in block.records):
            found.append((start, block.end))
        start = block.end
    return found


def test_a_journal_that_cannot_be_opened_stops_no_other(home: Home) -> None:
    """Wrong rights, or a bad disk; here a folder is in the way, which stops root too."""
    script = sweep_of(home, 3).write()
    own = script.folder.run_journal(script.run_id(1), 1)
    own.unlink()
    own.mkdir()
    with Store.open(home) as store:
        problems = store.ingest().problems
        assert len(problems) == 1
        assert str(own) in problems[0]
        assert batches_by_run(store) == {script.run_id(0): 6, script.run_id(1): 0, script.run_id(2): 6}


# -- compressed journals -----------------------------------------------------------------------------------------------


def test_compressed_journals_give_the_same_rows_as_plain_ones(home: Home) -> None:
    script = sweep_of(home, 3).write()
    plain = fresh(home)
    for journal in {step.journal for step in script.steps}:
        compress_journal(journal)
    assert not list(script.folder.path.rglob("*.jsonl"))
    assert fresh(home) == plain == rebuilt(home)


def test_a_sweep_that_is_compressed_between_two_passes(home: Home) -> None:
    script = sweep_of(home, 3)
    pen = Pen()
    # A pass in the middle of the second run, the next when everything has been packed.
    own = script.folder.run_journal(script.run_id(1), 1)
    middle = max(index for index, step in enumerate(script.steps) if step.journal == own) - 1
    script.compress()
    pen.write(script.steps[:middle])
    with Store.open(home) as store:
        store.ingest()
        assert 0 < batches_by_run(store)[script.run_id(1)] <= 6
        pen.write(script.steps[middle:])
        assert not list(script.folder.path.rglob("*.jsonl"))
        store.ingest()
        assert rows_of(store.connection) == fresh(home)
    assert fresh(home) == rebuilt(home)


def test_a_sweep_killed_while_it_compressed_has_both_forms(home: Home) -> None:
    script = sweep_of(home, 3).write()
    plain = fresh(home)
    for journal in {step.journal for step in script.steps}:
        content = journal.read_bytes()
        compress_journal(journal)
        journal.write_bytes(content)
        journal.with_name(journal.name + ".gz.part").write_bytes(b"half")
    assert fresh(home) == plain


@pytest.mark.parametrize("kept", [0, 3, 15, 0.5, 0.99])
def test_a_cut_off_compressed_journal_is_reported_and_the_others_go_on(home: Home, kept: float) -> None:
    script = sweep_of(home, 3).write()
    own = script.folder.run_journal(script.run_id(1), 1)
    size = own.stat().st_size
    compress_journal(own)
    packed = own.with_name(own.name + ".gz")
    content = packed.read_bytes()
    packed.write_bytes(content[: kept if isinstance(kept, int) else int(kept * len(content))])
    with Store.open(home) as store:
        problems = store.ingest().problems
        assert len(problems) == 1
        assert str(packed) in problems[0]
        found = batches_by_run(store)
        assert (found[script.run_id(0)], found[script.run_id(2)]) == (6, 6)
        unread = list_problems(store.connection)[0]["unread_bytes"]
        assert unread is None or 0 < unread <= size
        assert store.ingest() == (0, [], False)


def test_what_comes_before_the_damage_in_a_compressed_journal_is_read(home: Home) -> None:
    script = Script(home).begin()
    run_id = script.run(0, batches=3000, flushes=30)
    script.end(compress=True).write()
    packed = script.folder.run_journal(run_id, 1).with_name(f"{run_id}.1.jsonl.gz")
    content = bytearray(packed.read_bytes())
    content[int(0.9 * len(content))] ^= 0xFF
    packed.write_bytes(content)
    with Store.open(home) as store:
        assert len(store.ingest().problems) == 1
        assert 1500 < batches_by_run(store)[run_id] < 3000


# -- kill -9 -----------------------------------------------------------------------------------------------------------


def test_kill_while_ingesting(home: Home) -> None:
    """At random moments, over and over: nothing is lost and nothing is there twice."""
    scripts = []
    for number in range(3):
        script = Script(home, f"20260301-09{number:02d}00-aaaa", starts_at=60 * number).begin(planned_runs=20)
        for cell in range(20):
            script.run(cell, batches=400, flushes=4)
        scripts.append(script.end())
    write_steps(step for script in scripts[:2] for step in script.steps)
    before = time.perf_counter()
    expected = fresh(home)
    takes_s = time.perf_counter() - before
    moments = random.Random()
    for number in range(4):
        if number == 2:
            write_steps(step for script in scripts[2:] for step in script.steps)
            expected = fresh(home)
        process = StoreProcess(home)
        process.ask_to_ingest()
        time.sleep(moments.uniform(0, takes_s))
        process.kill()
        with Store.open(home) as store:
            assert store.notice == ""
            # What was committed before the kill is whole: offsets and rows went in together.
            phases, distinct = store.connection.execute(
                "SELECT count(*), count(DISTINCT (run_id, batch, phase)) FROM phases").fetchall()[0]
            assert phases == distinct == 1200 * len(store.connection.execute("FROM runs").fetchall())
    with Store.open(home) as store:
        store.ingest()
        assert rows_of(store.connection) == expected
