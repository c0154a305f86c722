"""The SQL console's own process: one statement over a snapshot of the store, read only, then it ends.

Started as a file of its own, isolated from this project's modules, with an empty environment. It cannot write files and
is bounded in memory and processor time by the kernel, besides what DuckDB itself is forbidden. Closing external access
closes it for a whole DuckDB instance for good, so this never happens in the app's process.
"""

from __future__ import annotations

import ctypes
import json
import re
import resource
import signal
import sys
import time
from typing import TYPE_CHECKING, Any

import duckdb

if TYPE_CHECKING:
    import pyarrow as pa

LOCKED = {"enable_external_access": "false", "autoinstall_known_extensions": "false",
          "autoload_known_extensions": "false", "allow_community_extensions": "false",
          "python_enable_replacements": "false", "python_scan_all_frames": "false", "temp_directory": "",
          "threads": "1", "lock_configuration": "true"}
READING = "the console only reads; write SELECT, WITH … SELECT, DESCRIBE or EXPLAIN"
EXPLAINING = re.compile(r"EXPLAIN\b\s*(?:ANALYZE\b\s*)?(?:\(\s*(?:ANALYZE|FORMAT)\b[\w\s,]*\))?", re.I | re.A)
PIVOTING = re.compile(r"(?:WITH|SELECT|FROM|PIVOT(?:_WIDER)?)\b|\(", re.I | re.A)
WRITING = re.compile(r"\b(?:COPY|CREATE|DELETE|INSERT|MERGE|UPDATE)\b", re.I)
MOST_COLUMNS = 200
MOST_TEXT = 10_000
MOST_ANSWER_BYTES = 16 * 2**20
CHUNK_ROWS = 2048
READY = b"ready\n"
GIB = 2**30
LASTING = (duckdb.ParserException, duckdb.BinderException, duckdb.CatalogException, duckdb.PermissionException)
"""What the same text gives over the same copy at any time; not so what memory, time or a disk denied."""


class Refused(Exception):
    """A sentence for the person who asked."""


def main() -> None:
    asked = json.loads(sys.stdin.buffer.readline())
    limit_s, memory_bytes = int(asked["limit_s"]), asked["memory_bytes"]
    # Should nobody be there to end it: without Python's help, whatever DuckDB is doing.
    signal.alarm(int(asked["start_s"]))
    for what, most in ((resource.RLIMIT_CPU, limit_s + 10), (resource.RLIMIT_FSIZE, 0), (resource.RLIMIT_CORE, 0),
                       (resource.RLIMIT_AS, memory_bytes + 2 * GIB)):
        resource.setrlimit(what, (most, most))
    give_up_privileges()
    try:
        connection = duckdb.connect(asked["store"], read_only=True,
                                    config={**LOCKED, "memory_limit": f"{memory_bytes // 2**20}MiB"})
    except duckdb.Error as error:
        send({"snapshot": str(error)})
        return
    try:
        table, header = answer(connection, asked["sql"], asked["rows"], limit_s)
    except Refused as refusal:
        send({"error": str(refusal), "lasting": True})
    except (duckdb.OutOfMemoryException, MemoryError):
        send({"error": f"This needs more than {memory_bytes / GIB:.3g} GiB of memory; narrow it with WHERE, aggregate "
                       "more, or add LIMIT after ORDER BY."})
    except duckdb.Error as error:
        send({"error": explain(error), "lasting": isinstance(error, LASTING)})
    else:
        send(header, table)


def give_up_privileges() -> None:
    """The copy of the store is not writable, and root would not care. Before DuckDB starts threads, which inherit it.

    DuckDB allows the path of its own database to every statement, whatever else is closed, and a file may be cut to
    nothing without a byte written.
    """
    read_anything = 1 << 2  # CAP_DAC_READ_SEARCH: the way to the copy may lead through somebody's own folder
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)
    for kept in (read_anything, 0):
        # Effective, permitted and inheritable, 32 capabilities each, then the same for the next 32.
        if ctypes.CDLL(None).capset(header, (ctypes.c_uint32 * 6)(kept, kept)) == 0:
            return


def send(header: dict[str, Any], table: pa.Table | None = None) -> None:
    sys.stdout.buffer.write(json.dumps(header).encode() + b"\n")
    if table is not None:
        import pyarrow as pa

        with pa.ipc.new_stream(sys.stdout.buffer, table.schema) as stream:
            stream.write_table(table)


def answer(connection: duckdb.DuckDBPyConnection, sql: str, most_rows: int,
           limit_s: int) -> tuple[pa.Table, dict[str, Any]]:
    """The first rows, and how many there are in all: the rest streams by and is only counted."""
    statements = connection.extract_statements(sql)
    if not statements:
        raise Refused("There is no statement; write a SELECT.")
    if len(statements) > 1:
        raise Refused(f"These are {len(statements)} statements; the console answers one at a time.")
    check_reading(connection, statements[0])
    import pyarrow as pa  # here: what is refused needs none of it

    sys.stdout.buffer.write(READY)  # from here on it is the query that takes time
    sys.stdout.buffer.flush()
    signal.alarm(limit_s + 3)
    began = time.monotonic()
    relation = connection.sql(sql)
    if relation is None:
        raise Refused("This statement has no result; write a SELECT.")
    if len(relation.columns) > MOST_COLUMNS:
        raise Refused(f"The result has {len(relation.columns)} columns, more than {MOST_COLUMNS}; name those you need.")
    reader = relation.to_arrow_reader(CHUNK_ROWS)
    kept: list[pa.RecordBatch] = []
    total = kept_bytes = 0
    counted = True
    for batch in reader:
        room = most_rows - sum(part.num_rows for part in kept)
        if room > 0 and kept_bytes < MOST_ANSWER_BYTES:
            part = batch.slice(0, room)
            kept.append(part)
            kept_bytes += part.get_total_buffer_size()
        total += batch.num_rows
        if time.monotonic() - began > 0.8 * limit_s:
            counted = False
            break
    table = plain(pa.Table.from_batches(kept, reader.schema))
    return table, {"shown": table.num_rows, "total": total, "counted": counted, "seconds": time.monotonic() - began}


def check_reading(connection: duckdb.DuckDBPyConnection, statement: duckdb.Statement) -> None:
    """Refuses what could write, also inside: EXPLAIN ANALYZE executes, and a WITH may hold a COPY."""
    kind, sql = statement.type.name, statement.query
    explained = EXPLAINING.match(sql)
    if explained:
        sql = sql[explained.end():]
    if kind == "MULTI":  # has a PIVOT in it, which names its columns in a first step; DuckDB tells no more
        if not PIVOTING.match(sql.lstrip()) or WRITING.search(sql):
            raise Refused("A PIVOT is answered where it is read from, without a word like COPY, CREATE or INSERT in "
                          f"the statement: {READING}.")
        return
    if kind == "EXPLAIN":
        try:
            inner = [found.type.name for found in connection.extract_statements(sql)] if explained else []
        except duckdb.ParserException:
            inner = []
        if inner != ["SELECT"]:
            raise Refused(f"EXPLAIN of what is no SELECT is refused: {READING}.")
    elif kind != "SELECT":
        raise Refused(f"{kind} is refused: {READING}.")
    parsed = connection.execute("SELECT json_serialize_sql(?::VARCHAR)", [sql]).fetchall()[0][0]
    if writing := find_writing(json.loads(parsed)):
        raise Refused(f"{writing} is refused: {READING}.")


def find_writing(parsed: Any) -> str:
    """The first part of a SELECT that is none, by name."""
    waiting = [parsed]
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            if (node := str(part.get("type"))).endswith("_QUERY_NODE"):
                return node.removesuffix("_QUERY_NODE")
            if part.get("error") is True:
                return "This statement"
            waiting += part.values()
        elif isinstance(part, list):
            waiting += part
    return ""


def plain(table: pa.Table) -> pa.Table:
    """Columns that every reader understands, each with a name of its own."""
    import pyarrow as pa

    names: list[str] = []
    for name in table.column_names:
        number, unique = 1, name or "column"
        while unique in names:
            number += 1
            unique = f"{name}_{number}"
        names.append(unique)
    return pa.table([plain_column(column) for column in table.columns], names=names)


def plain_column(column: pa.ChunkedArray) -> pa.Array:
    import pyarrow as pa

    kind = column.type
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind) or pa.types.is_date(kind):
        return column.combine_chunks()
    if pa.types.is_timestamp(kind):
        try:
            column.to_pylist()
            return column.combine_chunks()
        except OverflowError:  # years that no date of Python has
            return pa.array([None if value is None else str(value) for value in column.cast(pa.int64()).to_pylist()])
    values = column.to_pylist()
    if pa.types.is_decimal(kind):  # sums of whole numbers, too
        if kind.scale == 0 and all(value is None or abs(value) < 2**63 for value in values):
            return pa.array([None if value is None else int(value) for value in values], pa.int64())
        if kind.scale:
            return pa.array([None if value is None else float(value) for value in values], pa.float64())
    return pa.array([None if value is None else _text(value) for value in values], pa.string())


def _text(value: Any) -> str:
    text = value if isinstance(value, str) else str(value)
    return text if len(text) <= MOST_TEXT else text[:MOST_TEXT] + "…"


def explain(error: duckdb.Error) -> str:
    """DuckDB's message as one sentence, without its picture of the place."""
    text = str(error)
    if "disabled by configuration" in text or "disabled through configuration" in text:
        return "Refused: the console reads the lab's own tables, no files, no network, no extensions."
    if "configuration has been locked" in text:
        return "Refused: the console's settings are locked."
    if "read-only mode" in text:
        return "Refused: the console only reads."
    said = " ".join(text.partition("\nLINE ")[0].split())[:500]
    where = text.partition("\nLINE ")[2].partition(":")[0]
    return f"{said.rstrip('.!')}{f', in line {where}' if where.isdecimal() else ''}."


if __name__ == "__main__":
    main()
