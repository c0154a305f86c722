"""The SQL console: a real process on a real copy of the store. What it must not do is one sentence, and soon."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.home import Home
from store.database import Store
from store.keeper import Activity, Keeper
from store.sql_console import AT_ONCE, PROCESS, ROWS_SHOWN, Answer, Console
from store.sql_examples import EXAMPLES
from tests.store.small_lab import write_sweep

PATIENT_S = 60.0
"""For queries that shall end by themselves, on a machine that may be busy."""


@pytest.fixture(scope="module")
def keeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Keeper]:
    home = Home(tmp_path_factory.mktemp("sql") / "lab")
    write_sweep(home)
    with Store.open(home) as store:
        keeper = Keeper(store, lambda: Activity([], False))
        keeper.start()
        assert keeper.wait_until_ready(PATIENT_S)
        yield keeper
        keeper.stop()


@pytest.fixture(scope="module")
def console(keeper: Keeper) -> Console:
    return Console(keeper, PATIENT_S)


def rows(answer: Answer) -> list[dict[str, object]]:
    assert answer.problem == "" and answer.rows is not None
    found: list[dict[str, object]] = answer.rows.to_pylist()
    return found


def test_it_answers_from_the_store(console: Console) -> None:
    answer = console.ask("SELECT status, count(*) AS runs, sum(repeat) AS sum FROM runs GROUP BY ALL")
    assert rows(answer) == [{"status": "ok", "runs": 3, "sum": 0}]
    assert (answer.total, answer.counted) == (1, True) and answer.as_of


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.title)
def test_every_example_has_rows(console: Console, example: object) -> None:
    answer = console.ask(example.sql)  # type: ignore[attr-defined]
    assert answer.problem == "" and answer.rows is not None


@pytest.mark.parametrize(("sql", "said"), [
    ("SELECT * FROM read_csv('/etc/passwd')", "no files"),
    ("SELECT * FROM read_text('/etc/passwd')", "no files"),
    ("SELECT * FROM read_blob('/etc/passwd')", "no files"),
    ("SELECT * FROM read_json('/etc/passwd')", "no files"),
    ("SELECT * FROM read_parquet('/tmp/x.parquet')", "no files"),
    ("SELECT * FROM sniff_csv('/etc/passwd')", "no files"),
    ("SELECT * FROM glob('/etc/*')", "no files"),
    ("SELECT * FROM '/etc/passwd'", "does not exist"),
    ("SELECT * FROM 'https://example.com/x.csv'", "no network"),
    ("EXPLAIN ANALYZE COPY runs TO '{out}'", "EXPLAIN of what is no SELECT is refused"),
    ("EXPLAIN ANALYZE COPY (SELECT 1) TO '{copy}' (FORMAT csv, USE_TMP_FILE false)", "EXPLAIN of what is no SELECT"),
    ("EXPLAIN (ANALYZE /* ) SELECT 1 -- */) COPY (SELECT 1) TO '{copy}' (FORMAT csv)", "EXPLAIN of what is no SELECT"),
    ("EXPLAIN /* /* */ SELECT 1 -- */ ANALYZE COPY (SELECT 1) TO '{copy}' (FORMAT csv)", "EXPLAIN of what is no"),
    ("WITH a AS (COPY (SELECT 1) TO '{copy}' (FORMAT csv, USE_TMP_FILE false)) SELECT * FROM a", "COPY is refused"),
    ("EXPLAIN ANALYZE WITH a AS (COPY (SELECT 1) TO '{copy}' (FORMAT csv)) SELECT * FROM a", "COPY is refused"),
    ("COPY (PIVOT runs ON status USING count(*)) TO '{copy}' (FORMAT csv, USE_TMP_FILE false)", "A PIVOT is answered"),
    ("EXPLAIN ANALYZE COPY (PIVOT runs ON status) TO '{copy}' (FORMAT csv)", "A PIVOT is answered"),
    ("CREATE TEMP TABLE mine AS PIVOT runs ON status", "A PIVOT is answered"),
    ("EXPLAIN ANALYZE CREATE TEMP TABLE mine AS SELECT 1", "EXPLAIN of what is no SELECT is refused"),
    ("WITH a AS (DELETE FROM runs RETURNING *) SELECT * FROM a", "DELETE is refused"),
    ("COPY runs TO '{out}'", "COPY is refused"),
    ("COPY runs FROM '/etc/passwd'", "COPY is refused"),
    ("EXPORT DATABASE '{out}'", "EXPORT is refused"),
    ("IMPORT DATABASE '/tmp'", "PRAGMA is refused"),
    ("ATTACH '{out}'", "ATTACH is refused"),
    ("ATTACH ':memory:' AS other", "ATTACH is refused"),
    ("INSTALL httpfs", "LOAD is refused"),
    ("LOAD httpfs", "LOAD is refused"),
    ("LOAD '/tmp/own.so'", "LOAD is refused"),
    ("INSERT INTO runs (run_id) VALUES ('x')", "INSERT is refused"),
    ("UPDATE runs SET status = 'ok'", "UPDATE is refused"),
    ("DELETE FROM runs", "DELETE is refused"),
    ("DROP TABLE runs", "DROP is refused"),
    ("CREATE TABLE mine (i INTEGER)", "CREATE is refused"),
    ("CREATE TEMP TABLE mine AS SELECT 1", "CREATE is refused"),
    ("CREATE SECRET s (TYPE http)", "CREATE is refused"),
    ("SET threads = 8", "SET is refused"),
    ("SET enable_external_access = true", "SET is refused"),
    ("RESET memory_limit", "SET is refused"),
    ("SET VARIABLE a = 1", "SET is refused"),
    ("PRAGMA database_list", "PRAGMA is refused"),
    ("PRAGMA enable_profiling", "PRAGMA is refused"),
    ("CALL enable_logging()", "CALL is refused"),
    ("SELECT * FROM enable_logging(storage = 'file', storage_path = '{out}')", "settings are locked"),
    ("SELECT * FROM enable_profiling()", "settings are locked"),
    ("SELECT getenv('HOME')", "getenv does not exist"),
    ("SELECT * FROM duckdb_secrets()", "no files"),
    ("SELECT * FROM asked", "does not exist"),  # a variable of the process is no table
    ("BEGIN", "TRANSACTION is refused"),
    ("SELECT 1; DROP TABLE runs", "2 statements"),
    ("SELECT 1; SELECT 2", "2 statements"),
    ("", "no statement"),
    ("-- nothing", "no statement"),
    ("SELEC 1", "Parser Error"),
    ("SELECT nonsense\nFROM runs", "nonsense"),
    ("SELECT list(range) FROM range(1000000000)", "memory"),
    ("SELECT COLUMNS(*) FROM (SELECT " + ", ".join(f"1 AS c{n}" for n in range(201)) + ")", "201 columns"),
    ("SELECT 1 --" + "x" * 20_000, "more than 20,000")])
def test_what_is_refused_is_one_sentence(console: Console, tmp_path: Path, sql: str, said: str) -> None:
    copy = console.snapshot().path
    answer = console.ask(sql.replace("{out}", str(tmp_path / "out")).replace("{copy}", copy.name))
    assert said in answer.problem and answer.rows is None
    assert "\n" not in answer.problem and "Traceback" not in answer.problem and answer.problem.endswith(".")
    assert list(tmp_path.iterdir()) == [] and copy.stat().st_size > 4096
    assert rows(console.ask("SELECT count(*) AS n FROM runs")) == [{"n": 3}]


@pytest.mark.parametrize("sql", [
    "WITH RECURSIVE t(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM t) SELECT max(i) FROM t",
    "SELECT count(*) FROM range(10000000) a, range(10000000) b WHERE a.range * b.range % 7 = 3"])
def test_a_query_for_ever_is_ended(keeper: Keeper, sql: str) -> None:
    console = Console(keeper, limit_s=3.0)
    before = children()
    answer = console.ask(sql)
    assert answer.problem.startswith("This ran longer than 3 seconds and was ended") or "memory" in answer.problem
    assert children() == before


def test_what_failed_by_chance_is_not_kept(keeper: Keeper, console: Console) -> None:
    """On a busy machine the same question may be answered a moment later; a refusal stays one."""
    assert console.ask("SELEC 1") is console.ask("SELEC 1") and console.ask("DROP TABLE runs").lasting
    assert console.ask("SELECT nonsense FROM runs").lasting
    hurried = Console(keeper, limit_s=1.0)
    endless = "SELECT count(*) FROM range(10000000) a, range(10000000) b WHERE a.range * b.range % 7 = 3"
    assert hurried.ask(endless) is not hurried.ask(endless)
    never = Console(keeper, PATIENT_S, start_s=0.01)
    answer = never.ask("SELECT 1 AS one")
    assert "was not begun (its process has 0.01 seconds" in answer.problem and not answer.lasting
    assert never.ask("SELECT 1 AS one") is not answer


def children() -> set[str]:
    return {entry for entry in os.listdir("/proc") if entry.isdecimal() and _parent(entry) == os.getpid()}


def _parent(pid: str) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except (FileNotFoundError, ProcessLookupError):
        return 0


def test_ten_million_rows_are_counted_and_cut(console: Console) -> None:
    answer = console.ask("SELECT range AS i, 'x' || range AS t FROM range(10000000)")
    assert answer.problem == "" and answer.rows is not None
    assert answer.rows.num_rows == ROWS_SHOWN and answer.rows["i"][-1].as_py() == ROWS_SHOWN - 1
    assert answer.total == 10_000_000 or not answer.counted
    assert answer.rows.nbytes < 1_000_000


def test_long_texts_are_cut(console: Console) -> None:
    (row,) = rows(console.ask("SELECT repeat('x', 1000000) AS t"))
    assert row == {"t": "x" * 10_000 + "…"}
    answer = console.ask("SELECT repeat('x', 9000) AS t FROM range(20000)")
    assert answer.rows is not None and answer.rows.nbytes < 40 * 2**20 and answer.rows.num_rows < answer.total == 20_000


def test_every_type_comes_through(console: Console) -> None:
    (row,) = rows(console.ask("""
        SELECT 1 AS a, 2 AS a, 1.5::DECIMAL(10, 2) AS d, [1, 2] AS l, {'k': 1} AS s, INTERVAL 1 DAY AS i,
               '\\xAA'::BLOB AS b, TIME '10:00' AS t, 170141183460469231731687303715884105727 AS h,
               MAP {'k': 1} AS m, NULL AS n,
               TIMESTAMP '290000-01-01' AS far, 'nan'::DOUBLE AS nan, DATE '2026-01-02' AS day"""))
    assert (row["a"], row["a_2"], row["d"], row["l"], row["n"]) == (1, 2, 1.5, "[1, 2]", None)
    assert str(row["h"]).startswith("1701411834") and str(row["day"]) == "2026-01-02"


def test_pivot_describe_and_explain_are_reading(console: Console) -> None:
    for sql in ("PIVOT metrics ON name USING first(value) GROUP BY run_id;", "DESCRIBE runs", "EXPLAIN SELECT 1;",
                "-- how\n/* slow */ explain analyze SELECT 1; -- is it", "EXPLAIN (ANALYZE, FORMAT json) FROM runs",
                "EXPLAIN (SELECT 'delete')", "FROM runs", "WITH a AS (FROM runs) SELECT * FROM a", "SUMMARIZE runs",
                "SHOW TABLES", "VALUES (1)", "EXPLAIN PIVOT metrics ON name USING first(value)",
                "WITH m AS (FROM metrics) PIVOT m ON name USING first(value)"):
        assert rows(console.ask(sql)), sql


def test_the_copy_cannot_be_written_whoever_runs_the_app(console: Console, tmp_path: Path) -> None:
    """Behind the check of statements: DuckDB allows its own database's path, and this test may run as root."""
    copy = tmp_path / "copy.duckdb"
    copy.write_bytes(console.snapshot().path.read_bytes())
    copy.chmod(0o400)
    trying = ("import runpy, duckdb; own = runpy.run_path({!r}); own['give_up_privileges'](); "
              "duckdb.connect('copy.duckdb', read_only=True, config=own['LOCKED']).execute("
              "\"COPY (SELECT 1) TO 'copy.duckdb' (FORMAT csv, USE_TMP_FILE false)\")")
    tried = subprocess.run([sys.executable, "-c", trying.format(str(PROCESS))], cwd=tmp_path, capture_output=True,
                           text=True)
    assert "Permission denied" in tried.stderr and copy.stat().st_size > 4096
    assert console.snapshot().path.stat().st_mode & 0o777 == 0o400


def test_a_snapshot_is_renewed_when_the_store_has_changed(tmp_path: Path) -> None:
    home = Home(tmp_path / "lab")
    write_sweep(home, 0)
    looking: list[str] = []
    with Store.open(home) as store:
        keeper = Keeper(store, lambda: Activity(looking, False))
        keeper.start()
        assert keeper.wait_until_ready(PATIENT_S)
        console = Console(keeper, PATIENT_S)
        first = console.snapshot()
        assert console.snapshot() == first
        assert console.ask("SELECT count(*) AS n FROM sweeps") is console.ask(" SELECT count(*) AS n FROM sweeps\n")
        looking.append(write_sweep(home, 1))
        keeper.catch_up(PATIENT_S)
        assert rows(console.ask("SELECT count(*) AS n FROM sweeps")) == [{"n": 2}]
        assert not first.path.exists() and len(list(first.path.parent.glob("*.duckdb"))) == 1
        # Copying has not given up the lock that keeps other programs off the file.
        other = subprocess.run([sys.executable, "-c", f"import duckdb; duckdb.connect({str(home.store)!r})"],
                               capture_output=True, text=True)
        assert "Could not set lock on file" in other.stderr
        keeper.stop()
    assert rows_readable(home)


def rows_readable(home: Home) -> bool:
    with Store.open(home) as store:
        return store.notice == "" and store.connection.execute("SELECT count(*) FROM sweeps").fetchone() == (2,)


def test_while_a_run_is_measured_a_snapshot_stays_for_a_while(tmp_path: Path) -> None:
    home = Home(tmp_path / "lab")
    write_sweep(home, 0)
    looking: list[str] = []
    with Store.open(home) as store:
        keeper = Keeper(store, lambda: Activity(looking, True))
        keeper.start()
        assert keeper.wait_until_ready(PATIENT_S)
        console = Console(keeper, PATIENT_S)
        first = console.snapshot()
        looking.append(write_sweep(home, 1))
        keeper.catch_up(PATIENT_S)
        assert keeper.changes > first.changes and console.snapshot() == first
        keeper.stop()


def environment_of(pid: str) -> list[str]:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().decode(errors="replace").split("\0")
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return []


def test_the_store_answers_while_heavy_queries_run(keeper: Keeper, monkeypatch: pytest.MonkeyPatch) -> None:
    """As many as may run for ever, others wait and are told so; the app's own queries do not wait for any of them."""
    monkeypatch.setenv("PHASELAB_SECRET", "not for queries")
    console = Console(keeper, limit_s=4.0)
    console.snapshot()
    endless = "SELECT count(*) FROM range({}) a, range(10000000) b WHERE a.range * b.range % 7 = 3"
    answers: list[Answer] = []
    threads = [threading.Thread(target=lambda n=n: answers.append(console.ask(endless.format(10_000_000 + n))))
               for n in range(AT_ONCE + 1)]
    for thread in threads:
        thread.start()
    cursor = keeper.store.cursor()
    asked, secrets = 0, set()
    while all(thread.is_alive() for thread in threads):
        secrets |= {variable for pid in children() for variable in environment_of(pid) if "PHASELAB_SECRET" in variable}
        cursor.execute("SELECT count(*) FROM runs").fetchall()
        asked += 1
        time.sleep(0.02)
    for thread in threads:
        thread.join()
    assert asked > 20
    assert not secrets, "a query's process has this one's environment"
    assert all("was ended" in answer.problem or "Other queries" in answer.problem for answer in answers)
