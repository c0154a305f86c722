"""Taking a sweep away: one row per run, or one of the raw tables, as CSV or Parquet."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal

import duckdb
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from store.queries import list_runs

Format = Literal["csv", "parquet"]
TABLES = ("runs", "stages", "batches", "phases", "samples", "metrics")


def export_sweep(connection: duckdb.DuckDBPyConnection, sweep_id: str, table: str, form: Format, out: Path) -> int:
    """Write the rows of a sweep to a file; returns how many."""
    if table == "runs":
        rows = wide_runs(connection, sweep_id)
    else:
        assert table in TABLES, f"{table} is not exported"
        rows = connection.sql(f"""SELECT * FROM {table} WHERE run_id IN (
            SELECT run_id FROM runs WHERE sweep_id = $sweep_id) ORDER BY ALL""",
            params={"sweep_id": sweep_id}).to_arrow_table()
    part = out.with_name(out.name + ".part")
    if form == "csv":
        pyarrow.csv.write_csv(_harmless(rows), part)
    else:
        pyarrow.parquet.write_table(rows, part)
    part.replace(out)
    return int(rows.num_rows)


def wide_runs(connection: duckdb.DuckDBPyConnection, sweep_id: str) -> pa.Table:
    """One row per run: parameters as asked, what took effect where it differs, metrics, medians of phases."""
    flat = []
    for run in list_runs(connection, sweep_id):
        row: dict[str, Any] = {name: value for name, value in run.items()
                               if name not in ("params", "effective", "metrics", "phases")}
        row |= {name: _plain(value) for name, value in run["params"].items()}
        row |= {f"{name}_in_effect": _plain(value) for name, value in run["effective"].items()}
        # A metric may be called like a parameter (`batches`): both are kept.
        row |= {f"{name}_measured" if name in row else name: value for name, value in run["metrics"].items()}
        row |= {f"{phase}_median_s": summary["median_s"] for phase, summary in run["phases"].items()}
        flat.append(row)
    names = list(dict.fromkeys(["run_id", *(name for row in flat for name in row)]))
    return pa.table({name: _column([row.get(name) for row in flat]) for name in names})


def _column(values: list[Any]) -> pa.Array:
    """One type per column: what does not fit into one (a number in one run, text in another) becomes text."""
    kinds = {type(value) for value in values if value is not None}
    exact = all(abs(value) <= 2**53 for value in values if isinstance(value, int))
    if (len(kinds) > 1 and not (kinds == {int, float} and exact)) or (kinds == {int} and not _fits(values)):
        values = [None if value is None else str(value) for value in values]
    return pa.array(values)


def _fits(values: list[Any]) -> bool:
    return all(-(2**63) <= value < 2**63 for value in values if value is not None)


def _plain(value: Any) -> Any:
    return value if isinstance(value, str | int | float | bool | None) else json.dumps(value)


def _harmless(rows: pa.Table) -> pa.Table:
    """Text that a spreadsheet would take for a formula gets an apostrophe in front."""
    columns = {}
    for name in rows.column_names:
        column = rows[name]
        if pa.types.is_string(column.type):
            column = pa.array([_plain_text(text) for text in column.to_pylist()], pa.string())
        columns[_plain_text(name)] = column
    return pa.table(columns)


def _plain_text(text: Any) -> Any:
    return f"'{text}" if text and text[0] in "=+-@\t\r" else text
