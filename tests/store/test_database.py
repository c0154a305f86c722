"""Opening the store: one holder at a time, a damaged file or log built again, older and newer versions."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import duckdb
import pytest
from driven_lab import Lab

from engine.home import PROJECT, Home
from store.database import Store, StoreHeld, StoreUnusable, delete_store
from store.queries import count_rows, list_runs
from store.schema import VERSION, read_version
from tests.store.journal_builder import fresh, rows_of
from tests.store.small_lab import check_whole, everything, log_of, set_aside_files, write_sweep
from tests.store.store_process import StoreProcess

ASIDE = re.compile(r"phaselab\.duckdb\.damaged-\d{8}-\d{6}-\d{6}(\.wal)?")


# -- one holder --------------------------------------------------------------------------------------------------------


def test_a_second_process_is_told_who_has_the_store(home: Home) -> None:
    write_sweep(home)
    holder = StoreProcess(home)
    try:
        holder.ingest()
        with pytest.raises(StoreHeld) as held:
            Store.open(home)
        sentence = str(held.value)
        assert held.value.pid == holder.pid
        assert f"process {holder.pid}" in sentence
        assert str(home.store) in sentence
        assert "\n" not in sentence
        # What a command shows meanwhile comes from the journals and is the same.
        with Store.in_memory(home, home.sweep_ids()) as store:
            elsewhere = list_runs(store.connection)
    finally:
        holder.kill()
    with Store.open(home) as store:
        assert store.notice == ""
        assert list_runs(store.connection) == elsewhere != []
        assert rows_of(store.connection) == fresh(home)


def test_the_same_process_cannot_open_it_twice(home: Home) -> None:
    with Store.open(home) as store:
        with pytest.raises(StoreHeld, match=f"process {os.getpid()}"):
            Store.open(home)
        assert count_rows(store.connection)["runs"] == 0
    check_whole(home)


def test_commands_answer_while_another_process_has_the_store(lab: Lab) -> None:
    sweep_id = write_sweep(lab.home)
    alone = lab.json("runs", "--sweep", sweep_id)
    holder = StoreProcess(lab.home)
    try:
        assert lab.json("runs", "--sweep", sweep_id) == alone
        # A rebuild needs the store itself.
        assert f"process {holder.pid}" in lab.json("rebuild", expect=2)["error"]
    finally:
        holder.kill()


def test_a_store_that_another_program_has_open_is_held_not_damaged(home: Home) -> None:
    """Someone looks at the file with DuckDB's own client."""
    write_sweep(home)
    check_whole(home)
    code = "import duckdb, sys; c = duckdb.connect(sys.argv[1]); print('open', flush=True); sys.stdin.read()"
    client = subprocess.Popen([sys.executable, "-c", code, str(home.store)], stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, text=True)
    try:
        assert client.stdout and client.stdout.readline() == "open\n"
        with pytest.raises(StoreHeld, match=f"process {client.pid}"):
            Store.open(home)
    finally:
        client.kill()
        client.communicate()
    assert set_aside_files(home) == []
    check_whole(home)


# -- a bad file --------------------------------------------------------------------------------------------------------


def cut_to(share: float) -> Callable[[bytearray], bytearray]:
    return lambda content: content[: int(share * len(content))]


def overwrite(share: float, length: int) -> Callable[[bytearray], bytearray]:
    def change(content: bytearray) -> bytearray:
        at = int(share * len(content))
        content[at : at + length] = bytes(byte ^ 0xA5 for byte in content[at : at + length])
        return content
    return change


DAMAGES: dict[str, Callable[[bytearray], bytearray]] = {
    "first bytes": overwrite(0, 16), "all headers": overwrite(0, 12288),
    "cut in the headers": lambda content: content[:5000], "emptied": lambda _: bytearray(),
}
HIDDEN_DAMAGES = {"cut to a half": cut_to(0.5), "cut to nine tenths": cut_to(0.9),
                  **{f"one byte at {share:.0%}": overwrite(share, 1) for share in (0.3, 0.6, 0.8)}}
"""DuckDB opens such a file, and stumbles when it comes to the place."""


class Kept(NamedTuple):
    """A lab that was made once; each test has a copy."""

    root: Path
    rows: dict[str, list[str]]

    def copy_to(self, home: Home) -> Home:
        shutil.copytree(self.root, home.root)
        return home


@pytest.fixture(scope="module")
def kept_stored(tmp_path_factory: pytest.TempPathFactory) -> Kept:
    home = Home(tmp_path_factory.mktemp("stored"))
    write_sweep(home, 0)
    write_sweep(home, 1, runs=20)
    check_whole(home)
    assert not log_of(home).exists()
    return Kept(home.root, fresh(home))


@pytest.fixture
def stored(home: Home, kept_stored: Kept) -> Home:
    """A lab whose store is up to date and closed."""
    return kept_stored.copy_to(home)


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES.keys())
def test_a_damaged_file_is_set_aside_and_built_again(
        stored: Home, kept_stored: Kept, damage: Callable[[bytearray], bytearray]) -> None:
    damaged = bytes(damage(bytearray(stored.store.read_bytes())))
    stored.store.write_bytes(damaged)
    expected = kept_stored.rows
    rows = sum(len(expected[table]) for table in ("stages", "batches", "phases", "samples"))
    rows += sum("'measured'" in row for row in expected["metrics"])
    with Store.open(stored) as store:
        aside = set_aside_files(stored)
        assert len(aside) == 1
        assert ASIDE.fullmatch(aside[0])
        assert (stored.root / aside[0]).read_bytes() == damaged
        assert store.notice.startswith("the store was damaged (")
        assert f"it is kept as {aside[0]} and was built again from the journals: {rows} rows" in store.notice
        assert "\n" not in store.notice
        assert store.ingest() == (0, [], False)
        assert rows_of(store.connection) == expected
    with Store.open(stored) as store:
        assert (store.notice, store.ingest()) == ("", (0, [], False))
    assert set_aside_files(stored) == aside


@pytest.mark.parametrize("damage", HIDDEN_DAMAGES.values(), ids=HIDDEN_DAMAGES.keys())
def test_damage_that_shows_only_later_ends_in_a_rebuild(
        stored: Home, kept_stored: Kept, damage: Callable[[bytearray], bytearray]) -> None:
    """Whoever meets the damage may have to ask again, and is told so; then everything is there."""
    stored.store.write_bytes(damage(bytearray(stored.store.read_bytes())))
    try:
        everything(stored)
    except StoreUnusable as unusable:
        assert "damaged" in str(unusable)
        assert "\n" not in str(unusable)
    assert everything(stored) == kept_stored.rows
    assert len(set_aside_files(stored)) == 1


@pytest.mark.parametrize("by_hand", [True, False])
def test_a_damaged_store_that_someone_removed_meanwhile(stored: Home, kept_stored: Kept, by_hand: bool) -> None:
    """Told of the damage, a person may delete the file or ask for a rebuild, instead of asking again."""
    stored.store.write_bytes(cut_to(0.4)(bytearray(stored.store.read_bytes())))
    with pytest.raises(StoreUnusable, match="damaged"):
        everything(stored)
    if by_hand:
        stored.store.unlink(missing_ok=True)
    else:
        delete_store(stored)
    assert everything(stored) == kept_stored.rows
    check_whole(stored)


def test_a_command_that_meets_damage_shows_a_sentence(lab: Lab) -> None:
    write_sweep(lab.home, 0)
    write_sweep(lab.home, 1, runs=20)
    expected = lab.json("runs")
    lab.home.store.write_bytes(cut_to(0.4)(bytearray(lab.home.store.read_bytes())))
    code, out, err = lab.call("runs", "--json")
    assert "Traceback" not in err
    assert code in (0, 2)
    assert "damaged" in out + err
    assert lab.json("runs") == expected


# -- a bad write-ahead log ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def kept_logged(tmp_path_factory: pytest.TempPathFactory) -> Kept:
    home = Home(tmp_path_factory.mktemp("logged"))
    write_sweep(home, 0)
    check_whole(home)
    holder = StoreProcess(home)
    write_sweep(home, 1)
    holder.ingest()
    write_sweep(home, 2)
    holder.ingest()
    holder.kill()
    assert log_of(home).stat().st_size > 10_000
    return Kept(home.root, fresh(home))


@pytest.fixture
def logged(home: Home, kept_logged: Kept) -> Home:
    """A lab whose store was killed before a checkpoint: part of what it has is only in the log."""
    return kept_logged.copy_to(home)


def test_a_log_that_is_whole_is_replayed(logged: Home, kept_logged: Kept) -> None:
    with Store.open(logged) as store:
        assert (store.notice, store.ingest()) == ("", (0, [], False))
        assert rows_of(store.connection) == kept_logged.rows


@pytest.mark.parametrize("share", [0.02, 0.3, 0.6, 0.97])
def test_a_corrupt_log_is_set_aside_with_its_file(logged: Home, kept_logged: Kept, share: float) -> None:
    log = log_of(logged)
    log.write_bytes(overwrite(share, 3)(bytearray(log.read_bytes())))
    with Store.open(logged) as store:
        report = store.ingest()
        assert rows_of(store.connection) == kept_logged.rows
        aside = set_aside_files(logged)
        if not aside:
            # The bad bytes looked like a torn end: DuckDB drops what follows, and the pass has read it again.
            assert (report.rows > 0, store.notice) == (True, "")
            return
        assert [bool(ASIDE.fullmatch(name)) for name in aside] == [True, True]
        assert aside[1] == aside[0] + ".wal"
        assert "WAL" in store.notice
        assert aside[0] in store.notice
        assert re.search(r"built again from the journals: \d+ rows$", store.notice)
    with Store.open(logged) as store:
        assert (store.notice, store.ingest()) == ("", (0, [], False))


@pytest.mark.parametrize("share", [0, 0.4, 0.99])
def test_a_truncated_log_loses_nothing(logged: Home, kept_logged: Kept, share: float) -> None:
    """DuckDB drops the transactions that are not whole; offsets go with their rows, so the next pass reads them."""
    log = log_of(logged)
    log.write_bytes(cut_to(share)(bytearray(log.read_bytes())))
    with Store.open(logged) as store:
        report = store.ingest()
        assert report.rows > 0 or "built again from the journals" in store.notice
        assert rows_of(store.connection) == kept_logged.rows
    with Store.open(logged) as store:
        assert (store.notice, store.ingest()) == ("", (0, [], False))


def test_a_log_without_its_file(logged: Home, kept_logged: Kept) -> None:
    logged.store.unlink()
    assert everything(logged) == kept_logged.rows
    assert everything(logged) == kept_logged.rows


# -- versions ----------------------------------------------------------------------------------------------------------


def test_a_store_of_a_newer_version_is_refused_and_left_alone(stored: Home) -> None:
    connection = duckdb.connect(str(stored.store))
    connection.execute("INSERT INTO schema_version VALUES (?)", [VERSION + 1])
    connection.execute("CREATE TABLE of_the_future (x INTEGER)")
    connection.close()
    before = stored.store.read_bytes()
    for _ in range(2):
        with pytest.raises(StoreUnusable) as unusable:
            Store.open(stored)
        sentence = str(unusable.value)
        assert f"newer PhaseLab (its schema is {VERSION + 1}, this one knows {VERSION})" in sentence
        assert "update this project" in sentence
    assert stored.store.read_bytes() == before
    assert set_aside_files(stored) == []
    # The journals still answer.
    with Store.in_memory(stored, stored.sweep_ids()) as store:
        assert len(list_runs(store.connection)) == 23


UPGRADE = """
import os, signal, sys
import duckdb
from store import schema

schema.MIGRATIONS += ["CREATE TABLE boards (board_id VARCHAR); INSERT INTO boards SELECT run_id FROM phases",
                      "ALTER TABLE boards ADD COLUMN title VARCHAR; UPDATE boards SET title = board_id"]
schema.VERSION = len(schema.MIGRATIONS)
if die_in := int(sys.argv[2]):
    schema.MIGRATIONS[die_in - 1] += "; SELECT die()"
connection = duckdb.connect(sys.argv[1])
connection.create_function("die", lambda: os.kill(os.getpid(), signal.SIGKILL), [], "INTEGER", side_effects=True)
schema.migrate(connection)
print(schema.read_version(connection), connection.execute("SELECT count(*), count(title) FROM boards").fetchall()[0])
"""
"""A later PhaseLab with two more migrations; it is killed after the statements of one and before its commit."""


def test_a_migration_killed_half_way_is_done_by_the_next_start(stored: Home, kept_stored: Kept) -> None:
    def upgrade(die_in: int) -> subprocess.CompletedProcess[str]:
        return subprocess.run([sys.executable, "-c", UPGRADE, str(stored.store), str(die_in)], cwd=PROJECT, text=True,
                              capture_output=True)

    expected = kept_stored.rows
    for die_in in (VERSION + 1, VERSION + 2, VERSION + 2):
        killed = upgrade(die_in)
        assert killed.returncode == -signal.SIGKILL, killed.stderr
        with duckdb.connect(str(stored.store)) as connection:
            assert read_version(connection) == die_in - 1
            rows = rows_of(connection)
        assert {table: rows[table] for table in expected if table != "schema_version"} == {
            table: expected[table] for table in expected if table != "schema_version"}
    phases = len(expected["phases"])
    assert upgrade(0).stdout == f"{VERSION + 2} ({phases}, {phases})\n"


def test_a_first_start_killed_between_its_statements(home: Home) -> None:
    write_sweep(home)
    code = "import duckdb, os, sys; duckdb.connect(sys.argv[1]).execute(sys.argv[2]); os.kill(os.getpid(), 9)"
    subprocess.run([sys.executable, "-c", code, str(home.store), "CREATE TABLE schema_version (version INTEGER)"])
    check_whole(home)


def test_a_store_that_is_busy_when_it_is_closed_is_not_called_damaged(tmp_path: Path) -> None:
    home = Home(tmp_path / "lab")
    write_sweep(home)
    store = Store.open(home)
    store.ingest()
    cursor, asked = store.cursor(), threading.Event()

    def ask() -> None:
        asked.set()
        with contextlib.suppress(duckdb.InterruptException):
            cursor.execute("SELECT count(*) FROM range(100000000000)").fetchall()

    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    asked.wait()
    time.sleep(0.2)  # it has begun; if it had not, closing would simply succeed
    store.close()
    cursor.interrupt()
    asking.join(60)
    assert not asking.is_alive()
    cursor.close()
    check_whole(home)
    assert set_aside_files(home) == []


def test_many_threads_get_their_cursors(tmp_path: Path) -> None:
    """DuckDB refuses a call on a connection that another thread is in."""
    with Store.open(Home(tmp_path / "lab")) as store, ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda n: store.cursor().execute("SELECT ?", [n]).fetchall()[0][0], range(400)))
    assert answers == list(range(400))
