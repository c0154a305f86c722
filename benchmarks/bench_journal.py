"""Journal writing plus ingest in rows per second, and ingest against DuckDB reading the same files into a table."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter, process_time
from typing import Any

import duckdb
from comparison import at_least, at_most, estimate, print_report, progress, ratio, spread
from made_up_sweep import ROWS, make_up_sweep, write_sweep

from engine.home import Home
from engine.journal import list_journals
from store.database import Store

ROUNDS = 16
SHAPES = {"ten_batches_per_line": 10, "one_batch_per_line": 1}
"""A line is what one flush holds: ten batches of 50 ms, or one of half a second and more."""
COUNT = "SELECT (SELECT count(*) FROM phases) + (SELECT count(*) FROM batches) + (SELECT count(*) FROM samples)"


def time_ingest(home: Home) -> tuple[float, int]:
    """Seconds of an ingest into a fresh store, up to its commit, and the rows of measurements that arrived."""
    with Store.open(home) as store:
        started = perf_counter()
        report = store.ingest()
        seconds = perf_counter() - started
        assert not report.problems, report.problems
        return seconds, store.connection.execute(COUNT).fetchall()[0][0]


def time_duckdb(journals: list[Path], database: Path) -> float:
    """Seconds of DuckDB reading the same journals into a table of a fresh file, one row per line."""
    with duckdb.connect(str(database)) as connection:
        started = perf_counter()
        connection.execute("CREATE TABLE journal AS FROM read_json(?, format = 'newline_delimited', "
                           "union_by_name = true)", [[str(path) for path in journals]])
        return perf_counter() - started


def measure_round(per_line: int, duckdb_first: bool, found: dict[str, list[float]]) -> None:
    with TemporaryDirectory(prefix="phaselab-bench-") as root:
        home = Home(Path(root))
        folder = home.sweep("20260101-000000-0000")
        lines = make_up_sweep(folder, per_line)
        began_processor = process_time()
        write_s = write_sweep(lines)
        processor_s = process_time() - began_processor
        del lines  # the ingest's garbage collections must not visit them
        journals = [*list_journals(folder.path, "session-"), *list_journals(folder.runs)]
        duckdb_s = time_duckdb(journals, home.root / "plain.duckdb") if duckdb_first else 0.0
        began_processor = process_time()
        ingest_s, rows = time_ingest(home)
        processor_s += process_time() - began_processor
        duckdb_s = duckdb_s or time_duckdb(journals, home.root / "plain.duckdb")
        assert rows == ROWS
        values = {"write_s": write_s, "ingest_s": ingest_s, "duckdb_s": duckdb_s, "rows": rows,
                  "rows_per_s": rows / (write_s + ingest_s),
                  "rows_per_processor_s": rows / processor_s, "bytes": sum(path.stat().st_size for path in journals)}
        for name, value in values.items():
            found.setdefault(name, []).append(value)


def main() -> None:
    found: dict[str, dict[str, list[float]]] = {shape: {} for shape in SHAPES}
    for number in range(ROUNDS):
        progress(f"round {number + 1} of {ROUNDS}")
        for shape, per_line in SHAPES.items():
            measure_round(per_line, number % 2 == 0, found[shape])
    results: dict[str, Any] = {}
    limits = []
    for shape, values in found.items():
        rate, slower = estimate(values["rows_per_s"]), ratio(values["ingest_s"], values["duckdb_s"])
        results[shape] = {name: spread(column) for name, column in values.items()} | {
            "rows_per_s": rate, "rows_per_processor_s": estimate(values["rows_per_processor_s"]),
            "ingest_to_duckdb": slower}
        limits += [at_least(f"rows per second written and ingested, {shape}", 100_000, rate),
                   at_most(f"ingest against DuckDB reading the same files, {shape}", 4, slower)]
    print_report("journal", "Rows per second through journal and ingest, and ingest against DuckDB's own read_json.",
                 results, limits)


if __name__ == "__main__":
    main()
