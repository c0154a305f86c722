"""Compaction: what people deleted goes for good, from the journals and from the store, which stay equal row for row."""

from __future__ import annotations

from collections.abc import Callable

import duckdb

from engine.home import Home
from store.ingest import ingest, ingest_people
from store.rows import OF_A_RUN
from store.schema import ERASED, roll_back


def list_deleted(connection: duckdb.DuckDBPyConnection) -> list[str]:
    """Sweeps and runs that are deleted and can still be restored."""
    return [row[0] for row in connection.execute(
        f"SELECT target FROM deleted WHERE target NOT IN {ERASED} ORDER BY target").fetchall()]


def compact(connection: duckdb.DuckDBPyConnection, home: Home, erase: Callable[[Home, list[str]], None]) -> int:
    """Erase all that is deleted; returns how many sweeps and runs went. `erase` is the engine's."""
    targets = list_deleted(connection)
    if not targets:
        return 0
    touched = [row[0] for row in connection.execute("""
        SELECT sweep_id FROM sweeps WHERE list_contains($targets, sweep_id)
        UNION SELECT sweep_id FROM runs WHERE list_contains($targets, run_id) ORDER BY ALL""",
        {"targets": targets}).fetchall()]
    erase(home, targets)
    for sweep_id in touched:
        forget_sweep(connection, sweep_id)
        ingest(connection, home, [sweep_id])
    ingest_people(connection, home)
    return len(targets)


def forget_sweep(connection: duckdb.DuckDBPyConnection, sweep_id: str) -> None:
    """Every row that this sweep's journals gave, as if they had never been read."""
    connection.begin()
    try:
        for table in ("attempts", *(name for name in OF_A_RUN if name != "events")):
            connection.execute(
                f"DELETE FROM {table} WHERE run_id IN (SELECT run_id FROM runs WHERE sweep_id = ?)", [sweep_id])
        connection.execute("""DELETE FROM events WHERE sweep_id = $sweep_id
                              OR run_id IN (SELECT run_id FROM runs WHERE sweep_id = $sweep_id)""",
                           {"sweep_id": sweep_id})
        # The tags and notes it was launched with came from its journal; those of people came from theirs and stay.
        connection.execute("""
            DELETE FROM annotations a WHERE a.target = $sweep_id AND a.field IN ('tag', 'note')
            AND a.happened_at = (SELECT created_at FROM sweeps WHERE sweep_id = $sweep_id)""", {"sweep_id": sweep_id})
        connection.execute("""
            DELETE FROM environments
            WHERE environment_id IN (SELECT environment_id FROM runs WHERE sweep_id = $sweep_id)
            AND environment_id NOT IN (SELECT environment_id FROM runs WHERE sweep_id <> $sweep_id
                                       AND environment_id IS NOT NULL)""", {"sweep_id": sweep_id})
        for table in ("runs", "sweeps"):
            connection.execute(f"DELETE FROM {table} WHERE sweep_id = ?", [sweep_id])
        connection.execute("DELETE FROM journals WHERE starts_with(journal, ?)", [f"sweeps/{sweep_id}/"])
        connection.commit()
    except BaseException:
        roll_back(connection)
        raise
