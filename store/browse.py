"""What the pages ask: frames for tables, the latest of a running sweep, one run's curves. Limits keep pages quick."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import duckdb
import pandas as pd

from analysis.cells import CellTimes, RunTimes, time_cells
from analysis.expectation import PastRun, work_of
from store.queries import GIVEN_PHASES, KEPT, Answer, ask
from store.schema import ERASED

VARYING_SHOWN = 8
CELLS_SHOWN = 40
PAST_RUNS_OF_A_CELL = 20
SAMPLES_SHOWN = 2_000
"""More telemetry than this is thinned evenly before it is drawn."""


def sweeps_frame(connection: duckdb.DuckDBPyConnection, limit: int = 1_000, also: str = "",
                 archived: bool = True) -> pd.DataFrame:
    """The newest sweeps with their runs counted by outcome, the open ones and the one named `also` among them; deleted
    sweeps and runs are not there, archived ones only if asked for."""
    hidden = "" if archived else "AND s.sweep_id NOT IN (SELECT target FROM archived)"
    return connection.execute(f"""
        WITH shown AS (
            SELECT sweep_id FROM (SELECT sweep_id FROM sweeps s
                                  WHERE sweep_id NOT IN (SELECT target FROM deleted) {hidden}
                                  ORDER BY created_at DESC, sweep_id DESC LIMIT $limit)
            UNION SELECT sweep_id FROM sweeps s WHERE (sweep_id = $also OR status IN ('running', 'queued'))
                  AND sweep_id NOT IN (SELECT target FROM deleted))
        SELECT s.sweep_id, coalesce(s.name, '') AS name, s.experiment, s.status, s.reason, s.created_at, s.ended_at,
               s.planned_runs, coalesce(r.ok, 0) AS ok, coalesce(r.running, 0) AS running,
               coalesce(r.other, 0) AS other, coalesce(r.skipped, 0) AS skipped
        FROM sweeps s LEFT JOIN (
            SELECT sweep_id, count(*) FILTER (status = 'ok') AS ok, count(*) FILTER (status = 'running') AS running,
                   count(*) FILTER (status NOT IN ('ok', 'running')) AS other,
                   count(*) FILTER (status = 'skipped') AS skipped
            FROM runs WHERE {KEPT} GROUP BY sweep_id) r USING (sweep_id)
        WHERE s.sweep_id IN (FROM shown)
        ORDER BY s.created_at DESC, s.sweep_id DESC""", {"limit": limit, "also": also}).df()


def sweep_cells(connection: duckdb.DuckDBPyConnection, sweep_id: str) -> list[CellTimes]:
    """Every cell of a sweep over its ok runs, labelled by what sets it apart, in the order of measuring. Imported runs
    have no batches: their phases are the figures that their file gives."""
    found = ask(connection, """
        WITH members AS (SELECT run_id, cell_key, noisy, started_at FROM runs WHERE sweep_id = $sweep_id
                         AND status = 'ok' AND run_id NOT IN (SELECT target FROM deleted))
        SELECT m.run_id, m.cell_key, m.noisy, n.items, n.end_to_end_s, coalesce(p.phases, n.given) AS phases
        FROM members m
        JOIN (SELECT run_id, max(value) FILTER (name = 'items') AS items,
                     max(value) FILTER (name = 'end_to_end_s') AS end_to_end_s,
                     map(list(name[:-3]) FILTER (list_contains($given, name)),
                         list(value) FILTER (list_contains($given, name))) AS given
              FROM metrics WHERE (name IN ('items', 'end_to_end_s') OR list_contains($given, name))
              AND run_id IN (SELECT run_id FROM members)
              GROUP BY run_id) n USING (run_id)
        LEFT JOIN (SELECT run_id, map(list(phase), list(total_s)) AS phases FROM phase_summaries
                   WHERE run_id IN (SELECT run_id FROM members) GROUP BY run_id) p USING (run_id)
        ORDER BY m.started_at""", {"sweep_id": sweep_id, "given": [f"{phase}_s" for phase in GIVEN_PHASES]})
    values = cell_values(connection, sweep_id, varying_parameters(
        connection, "sweep_id = $sweep_id", {"sweep_id": sweep_id}))
    cells = time_cells(RunTimes(row["cell_key"], row["items"], row["end_to_end_s"], row["phases"] or {}, row["noisy"],
                                row["run_id"]) for row in found)
    return [cell._replace(cell=label_cell(own) if (own := values.get(cell.cell)) else "the only cell",
                          values=values.get(cell.cell, {})) for cell in cells]


def sweep_results(connection: duckdb.DuckDBPyConnection, sweep_id: str, limit: int = 100) -> list[Answer]:
    """The ok runs of a sweep, newest first, with what sets them apart and all their metrics: for experiments that have
    no batches to be compared by."""
    values = cell_values(connection, sweep_id, varying_parameters(
        connection, "sweep_id = $sweep_id", {"sweep_id": sweep_id}))
    found = ask(connection, """
        SELECT r.run_id, r.cell_key, m.names, m.numbers, m.units
        FROM runs r JOIN (SELECT run_id, list(name ORDER BY name) AS names, list(value ORDER BY name) AS numbers,
                                 list(unit ORDER BY name) AS units FROM metrics
                          WHERE run_id IN (SELECT run_id FROM runs WHERE sweep_id = $sweep_id)
                          GROUP BY run_id) m USING (run_id)
        WHERE r.sweep_id = $sweep_id AND r.status = 'ok' AND r.run_id NOT IN (SELECT target FROM deleted)
        ORDER BY r.started_at DESC LIMIT $limit""", {"sweep_id": sweep_id, "limit": limit})
    return [{"values": values.get(row["cell_key"], {}), "metrics": {
        name: (number, unit) for name, number, unit in zip(row["names"], row["numbers"], row["units"], strict=True)}}
        for row in found]


def in_natural_order(cells: list[CellTimes]) -> list[CellTimes]:
    """By label, numbers inside it as numbers: batch_size=8 before batch_size=32."""
    return sorted(cells, key=lambda cell: natural(cell.cell))


def cell_values(connection: duckdb.DuckDBPyConnection, sweep_id: str, names: list[str]) -> dict[str, dict[str, Any]]:
    """Cells of a sweep by their key, with the values of these parameters in the order of the names."""
    found: dict[str, dict[str, Any]] = {}
    for key, name, asked in connection.execute("""
            SELECT DISTINCT r.cell_key, p.name, p.asked FROM runs r JOIN parameters p USING (run_id)
            WHERE r.sweep_id = ? AND p.name IN (SELECT unnest(?))""", [sweep_id, names]).fetchall():
        found.setdefault(key, {})[name] = json.loads(asked) if asked is not None else None
    return {key: {name: values[name] for name in names if name in values} for key, values in found.items()}


def label_cell(values: dict[str, Any]) -> str:
    """What sets a cell apart: `batch_size=32, workers=2`."""
    return ", ".join(f"{name}={value}" for name, value in values.items())


def varying_parameters(connection: duckdb.DuckDBPyConnection, where: str, values: dict[str, Any]) -> list[str]:
    """Parameters with more than one value among some runs, in the order of the experiment's own list."""
    return [row[0] for row in connection.execute(f"""
        SELECT name FROM parameters WHERE run_id IN (SELECT run_id FROM runs WHERE {where})
        GROUP BY name HAVING count(DISTINCT asked) > 1 ORDER BY min(rowid) LIMIT {VARYING_SHOWN}""",
        values).fetchall()]


def count_batches(connection: duckdb.DuckDBPyConnection, run_id: str) -> int:
    """Batches with phases so far; a run that is still measured has no summary."""
    return int(connection.execute("SELECT coalesce(max(batch) + 1, 0) FROM phases WHERE run_id = ?",
                                  [run_id]).fetchall()[0][0])


def run_batches(connection: duckdb.DuckDBPyConnection, run_id: str, first: int, count: int) -> list[Answer]:
    return ask(connection, """
        SELECT batch, phase, start_s, seconds FROM phases
        WHERE run_id = $run_id AND batch >= $first AND batch < $first + $count
        ORDER BY batch, start_s""", {"run_id": run_id, "first": first, "count": count})


def run_samples(connection: duckdb.DuckDBPyConnection, run_id: str, metrics: Sequence[str],
                most: int = SAMPLES_SHOWN) -> list[Answer]:
    """Telemetry of one run, each reading thinned evenly when there is more of it than a chart can show."""
    rows = []
    for device, metric, times, values in connection.execute("""
            SELECT device, metric, list(time_s ORDER BY time_s), list(value ORDER BY time_s) FROM samples
            WHERE run_id = $run_id AND list_contains($metrics, metric) GROUP BY device, metric
            ORDER BY device, metric""", {"run_id": run_id, "metrics": list(metrics)}).fetchall():
        kept = [*range(0, len(times) - 1, max(len(times) // most, 1)), len(times) - 1]
        rows += [{"device": device, "metric": metric, "time_s": times[i], "value": values[i]} for i in kept]
    return rows


def run_stages(connection: duckdb.DuckDBPyConnection, run_id: str) -> list[Answer]:
    return ask(connection, "SELECT stage, start_s, seconds FROM stages WHERE run_id = $run_id ORDER BY start_s",
                 {"run_id": run_id})


class Filters(NamedTuple):
    """Which runs: everything empty means all that are neither archived nor deleted."""

    text: str = ""
    sweep_id: str | None = None
    statuses: Sequence[str] = ()
    tag: str | None = None
    shown: str = "current"
    """current, archived or deleted."""


def runs_frame(connection: duckdb.DuckDBPyConnection, filters: Filters, limit: int) -> tuple[pd.DataFrame, int]:
    """The newest runs that fit, with outcome, the parameters that vary among them and the main numbers; and how many
    fit in all."""
    where, values = _where(filters)
    total = connection.execute(f"SELECT count(*) FROM runs WHERE {where}", values).fetchall()[0][0]
    chosen = f"SELECT * FROM runs WHERE {where} ORDER BY started_at DESC, run_id LIMIT {limit}"
    names = varying_parameters(connection, f"run_id IN (SELECT run_id FROM ({chosen}))", values)
    pivot = "".join(f", max(p.asked->>'$') FILTER (p.name = {_text(name)}) AS {_identifier(name)}" for name in names)
    frame = connection.execute(f"""
        WITH chosen AS ({chosen}),
        asked AS (SELECT p.run_id{pivot} FROM parameters p
                  WHERE p.name IN (SELECT unnest($names)) AND p.run_id IN (SELECT run_id FROM chosen)
                  GROUP BY p.run_id),
        numbers AS (
            SELECT run_id, max(value) FILTER (name = 'end_to_end_s') AS end_to_end_s,
                   end_to_end_s / nullif(max(value) FILTER (name = 'items'), 0) AS item_s,
                   max(value) FILTER (name = 'first_batch_s') AS first_batch_s,
                   max(value) FILTER (name = 'steady_items_per_s') AS items_per_s
            FROM metrics WHERE name IN ('end_to_end_s', 'items', 'first_batch_s', 'steady_items_per_s')
            AND run_id IN (SELECT run_id FROM chosen) GROUP BY run_id),
        tagged AS (SELECT target, list(DISTINCT tag ORDER BY tag) AS tags FROM tags GROUP BY target)
        SELECT c.status, s.name AS sweep, n.* EXCLUDE (run_id), a.* EXCLUDE (run_id), c.noisy, c.repeat,
               array_to_string(list_sort(list_distinct(list_concat(coalesce(t.tags, []), coalesce(st.tags, [])))),
                               ', ') AS tags,
               coalesce(nt.note, '') AS note, c.reason,
               CASE s.source WHEN 'imported' THEN 'imported' ELSE e.facts->>'hostname' END AS source,
               c.started_at, c.experiment, c.run_id, c.sweep_id
        FROM chosen c LEFT JOIN asked a USING (run_id) LEFT JOIN numbers n USING (run_id)
        LEFT JOIN sweeps s ON s.sweep_id = c.sweep_id
        LEFT JOIN environments e ON e.environment_id = c.environment_id
        LEFT JOIN tagged t ON t.target = c.run_id LEFT JOIN tagged st ON st.target = c.sweep_id
        LEFT JOIN notes nt ON nt.target = c.run_id
        ORDER BY c.started_at DESC, c.run_id""", {**values, "names": names}).df()
    for name in names:
        frame[name] = _as_numbers(frame[name])
    return frame, total


def _as_numbers(column: pd.Series[Any]) -> pd.Series[Any]:
    """Parameters that are numbers sort as numbers: 32 before 128."""
    numbers = pd.to_numeric(column, errors="coerce")
    return numbers if numbers.notna().equals(column.notna()) else column


def _where(filters: Filters) -> tuple[str, dict[str, Any]]:
    values: dict[str, Any] = {}
    inside = "(run_id IN (SELECT target FROM {0}) OR sweep_id IN (SELECT target FROM {0}))".format
    conditions = {"current": [KEPT, f"NOT {inside('archived')}"], "archived": [KEPT, inside("archived")],
                  # What was erased is gone; a row that its sweep's own journal left is not offered for restoring.
                  "deleted": [inside("deleted"), f"NOT {inside(ERASED)}"]}[filters.shown]
    if filters.sweep_id:
        conditions.append("sweep_id = $sweep_id")
        values["sweep_id"] = filters.sweep_id
    if filters.statuses:
        conditions.append("list_contains($statuses, status)")
        values["statuses"] = list(filters.statuses)
    if filters.text:
        conditions.append("""(contains(lower(run_id), lower($text))
            OR contains(lower(coalesce(reason, '')), lower($text))
            OR sweep_id IN (SELECT sweep_id FROM sweeps WHERE contains(lower(coalesce(name, '')), lower($text)))
            OR run_id IN (SELECT run_id FROM parameters WHERE contains(lower(asked::VARCHAR), lower($text)))
            OR run_id IN (SELECT target FROM notes WHERE contains(lower(note), lower($text)))
            OR sweep_id IN (SELECT target FROM notes WHERE contains(lower(note), lower($text))))""")
        values["text"] = filters.text
    if filters.tag:
        conditions.append("(run_id IN (SELECT target FROM tags WHERE tag = $tag) "
                          "OR sweep_id IN (SELECT target FROM tags WHERE tag = $tag))")
        values["tag"] = filters.tag
    return " AND ".join(conditions), values


def annotations_of(connection: duckdb.DuckDBPyConnection, target: str) -> Answer:
    """Tags, note, and whether a sweep or run is archived or deleted."""
    tags = [row[0] for row in connection.execute(
        "SELECT DISTINCT tag FROM tags WHERE target = ? ORDER BY tag", [target]).fetchall()]
    note = connection.execute("SELECT note FROM notes WHERE target = ?", [target]).fetchone()
    state = {name: bool(connection.execute(f"SELECT 1 FROM {view} WHERE target = ?", [target]).fetchone())
             for name, view in (("erased", ERASED), ("archived", "archived"), ("deleted", "deleted"))}
    return {"tags": tags, "note": note[0] if note else "", **state}


def sweep_of(connection: duckdb.DuckDBPyConnection, run_id: str) -> Answer:
    """The sweep of a run: its id, its name and what varies in it."""
    (found,) = ask(connection, """SELECT r.sweep_id, s.name FROM runs r LEFT JOIN sweeps s USING (sweep_id)
                                  WHERE r.run_id = $run_id""", {"run_id": run_id})
    found["varies"] = varying_parameters(connection, "sweep_id = $sweep_id", {"sweep_id": found["sweep_id"]})
    return found


def past_runs(connection: duckdb.DuckDBPyConnection, experiment: str,
              same: Callable[[dict[str, Any]], bool]) -> list[PastRun]:
    """Ok runs of an experiment under environments whose facts are the `same`: the basis of an honest estimate. The
    newest of each cell, however long ago: what was measured once is not the first of its kind."""
    alike = [environment_id for environment_id, facts in connection.execute(
        "SELECT environment_id, facts FROM environments").fetchall() if same(json.loads(facts))]
    found = connection.execute(f"""
        WITH chosen AS (SELECT run_id, cell_key, wall_s, started_at FROM runs WHERE experiment = $experiment
                        AND status = 'ok' AND wall_s IS NOT NULL AND {KEPT}
                        AND environment_id IN (SELECT unnest($alike))
                        QUALIFY row_number() OVER (PARTITION BY cell_key ORDER BY started_at DESC, run_id)
                                <= {PAST_RUNS_OF_A_CELL}),
        cells AS (SELECT cell_key, list(wall_s) AS walls_s, arg_max(run_id, started_at) AS run_id FROM chosen
                  GROUP BY cell_key)
        SELECT c.cell_key, c.walls_s, p.asked FROM cells c
        JOIN (SELECT run_id, json_group_object(name, asked) AS asked FROM parameters
              WHERE asked IS NOT NULL AND run_id IN (SELECT run_id FROM cells) GROUP BY run_id) p USING (run_id)""",
        {"experiment": experiment, "alike": alike}).fetchall()
    return [PastRun(key, work, wall_s) for key, walls_s, asked in found for work in [work_of(json.loads(asked))]
            for wall_s in walls_s]


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def _identifier(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def natural(text: str) -> list[Any]:
    """Numbers inside a label sort as numbers."""
    return [(0, int(part), "") if part.isdigit() else (1, 0, part) for part in re.split(r"(\d+)", text)]


def filter_choices(connection: duckdb.DuckDBPyConnection) -> dict[str, Any]:
    """What the filters of the runs table offer: sweeps, deleted ones apart, and tags."""
    found = connection.execute("""
        SELECT sweep_id, concat_ws(' · ', coalesce(nullif(name, ''), sweep_id), strftime(created_at, '%m-%d %H:%M')),
               sweep_id IN (SELECT target FROM deleted) AS gone
        FROM sweeps QUALIFY row_number() OVER (PARTITION BY gone ORDER BY created_at DESC) <= 2000
        ORDER BY created_at DESC""").fetchall()
    tags = [row[0] for row in connection.execute("SELECT DISTINCT tag FROM tags ORDER BY tag").fetchall()]
    return {"sweeps": {sweep_id: name for sweep_id, name, gone in found if not gone},
            "deleted": {sweep_id: name for sweep_id, name, gone in found if gone}, "tags": tags}


def sweep_spec(connection: duckdb.DuckDBPyConnection, sweep_id: str) -> dict[str, Any] | None:
    """A sweep as it was asked for, to be asked for again; another random order is drawn then."""
    found = connection.execute("SELECT spec FROM sweeps WHERE sweep_id = ?", [sweep_id]).fetchone()
    if not found or not found[0]:
        return None
    spec = json.loads(found[0])
    spec.pop("order_seed", None)
    return dict(spec)


def run_as_sweep(connection: duckdb.DuckDBPyConnection, run_id: str) -> dict[str, Any] | None:
    """One run as a sweep of one cell, with everything that was asked of it."""
    found = connection.execute("""
        SELECT r.experiment, coalesce(nullif(s.name, ''), r.run_id) FROM runs r JOIN sweeps s USING (sweep_id)
        WHERE r.run_id = ?""", [run_id]).fetchone()
    if not found:
        return None
    asked = {name: json.loads(value) for name, value in connection.execute(
        "SELECT name, asked FROM parameters WHERE run_id = ? AND asked IS NOT NULL ORDER BY rowid",
        [run_id]).fetchall()}
    return {"experiment": found[0], "name": f"again: {found[1]}"[:200], "repeats": 1, "fixed": asked}


def published_frame(connection: duckdb.DuckDBPyConnection) -> pd.DataFrame:
    """Every published figure, regrets and top-3 counts among them."""
    return connection.execute("""
        SELECT study, subject, metric, value, unit, params::VARCHAR AS params, coalesce(caveat, '') AS caveat
        FROM published
        UNION ALL
        SELECT 'seed 004', 'batch ' || batch_size || ', ' || workers || ' workers, ' || data, name, number, unit,
               json_object('data', data, 'batch_size', batch_size, 'workers', workers)::VARCHAR, 'over twelve models'
        FROM (SELECT *, 'mean_regret' AS name, mean_regret AS number, '' AS unit FROM published_regret UNION ALL
              SELECT *, 'top3_count', top3_count, 'models' FROM published_regret)
        ORDER BY ALL""").df()
