"""What Compare asks: which runs a link names, all that is compared about them, one cell wherever it was measured."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import duckdb

from analysis.side_by_side import ComparedRun
from store.browse import cell_values, label_cell, natural, varying_parameters
from store.queries import GIVEN_PHASES, KEPT, Answer, ask

POINTS = 240
"""Of a run's telemetry, at most: more cannot be told apart in a chart."""
MOST_ITEMS = 200
MOST_RUNS = 1_000
"""Of one cell over time."""
ITEM = re.compile(r"[A-Za-z0-9_.-]{1,120}(~[A-Za-z0-9-]{1,40})?")
CELL_OF_RUN = "regexp_replace(run_id, '-[0-9]+$', '')"


class Chosen(NamedTuple):
    """What the items of a link stand for."""

    cells: dict[str, list[str]]
    """Run ids by cell (the run's id without its repeat), in the order of the items; a sweep's cells in their own."""
    sweeps: dict[str, str]
    """Names of the sweeps that were chosen as wholes."""
    items: list[str]
    """The items that are there."""
    unknown: list[str]
    beyond: int = 0
    """Items that were not looked at, because there are too many."""


def resolve_items(connection: duckdb.DuckDBPyConnection, items: Sequence[str]) -> Chosen:
    """Items are ids of runs, of sweeps, or of cells: a run's id without its repeat, with ~ and an environment's id
    where the cell was measured in several."""
    everything = list(dict.fromkeys(item for item in items if item))
    asked = everything[:MOST_ITEMS]
    valid = [item for item in asked if ITEM.fullmatch(item)]
    rows = connection.execute(f"""
        SELECT run_id, sweep_id, {CELL_OF_RUN} AS cell, coalesce(environment_id, 'unknown'), cell_key FROM runs
        WHERE (list_contains($items, run_id) OR list_contains($items, sweep_id)
               OR list_contains($cells, {CELL_OF_RUN})) AND {KEPT}
        ORDER BY run_id""", {"items": valid, "cells": [item.partition("~")[0] for item in valid]}).fetchall()
    names = dict(connection.execute("""
        SELECT sweep_id, coalesce(nullif(name, ''), sweep_id) FROM sweeps WHERE list_contains($items, sweep_id)
        AND sweep_id NOT IN (SELECT target FROM deleted)""", {"items": valid}).fetchall())
    cells: dict[str, list[str]] = {}
    sweeps, there = {}, []
    for item in valid:
        cell, _, environment = item.partition("~")
        found = [(row[2], row[0]) for row in rows if row[0] == item or (
            row[2] == cell and environment in ("", row[3]))]
        if item in names:
            sweeps[item] = names[item]
            found = [(row[2], row[0]) for row in _in_order(connection, item, [row for row in rows if row[1] == item])]
        for own, run_id in found:
            if run_id not in (members := cells.setdefault(own, [])):
                members.append(run_id)
        if found or item in names:
            there.append(item)
    return Chosen(cells, sweeps, there, [item for item in asked if item not in there], len(everything) - len(asked))


def _in_order(connection: duckdb.DuckDBPyConnection, sweep_id: str, rows: list[Any]) -> list[Any]:
    """A sweep's runs by the values of what varies in it, not in the random order of measuring."""
    varies = varying_parameters(connection, "sweep_id = $sweep_id", {"sweep_id": sweep_id})
    labels = {key: natural(label_cell(values)) for key, values in cell_values(connection, sweep_id, varies).items()}
    return sorted(rows, key=lambda row: (labels.get(row[4], []), row[0]))


def compared_runs(connection: duckdb.DuckDBPyConnection, run_ids: Sequence[str]) -> list[ComparedRun]:
    """Everything that is compared about these runs, in their order."""
    values = {"run_ids": list(run_ids)}
    mine = "run_id IN (SELECT unnest($run_ids))"
    asked: dict[str, dict[str, Any]] = {}
    effective: dict[str, dict[str, Any]] = {}
    for run_id, name, wanted, took in connection.execute(
            f"SELECT run_id, name, asked, effective FROM parameters WHERE {mine} ORDER BY rowid", values).fetchall():
        if wanted is not None:
            asked.setdefault(run_id, {})[name] = json.loads(wanted)
        if took is not None:
            effective.setdefault(run_id, {})[name] = json.loads(took)
    metrics: dict[str, dict[str, float]] = {}
    for run_id, name, value in connection.execute(
            f"SELECT run_id, name, value FROM metrics WHERE {mine} AND isfinite(value)", values).fetchall():
        metrics.setdefault(run_id, {})[name] = value
    phases: dict[str, dict[str, float]] = {}
    for run_id, phase, total_s in connection.execute(
            f"SELECT run_id, phase, total_s FROM phase_summaries WHERE {mine}", values).fetchall():
        phases.setdefault(run_id, {})[phase] = total_s
    found = {}
    for row in ask(connection, f"""
            SELECT r.run_id, r.sweep_id, coalesce(nullif(s.name, ''), r.sweep_id) AS sweep, r.experiment, r.cell_key,
                   r.repeat, r.status, coalesce(r.reason, '') AS reason, r.started_at,
                   coalesce(r.environment_id, '') AS environment_id, coalesce(s.source = 'imported', false) AS imported,
                   r.noisy
            FROM runs r LEFT JOIN sweeps s USING (sweep_id) WHERE r.{mine}""", values):
        run_id = row["run_id"]
        known = metrics.get(run_id, {})
        given = {phase: known[f"{phase}_s"] for phase in GIVEN_PHASES if f"{phase}_s" in known}
        found[run_id] = ComparedRun(**row, asked=asked.get(run_id, {}), effective=effective.get(run_id, {}),
                                    metrics=known, phases_s=phases.get(run_id) or given)
    return [found[run_id] for run_id in run_ids if run_id in found]


def metric_units(connection: duckdb.DuckDBPyConnection, run_ids: Sequence[str]) -> dict[str, str | None]:
    return dict(connection.execute("""
        SELECT name, max(unit) FROM metrics WHERE run_id IN (SELECT unnest($run_ids)) GROUP BY name""",
        {"run_ids": list(run_ids)}).fetchall())


def environment_facts(connection: duckdb.DuckDBPyConnection, identities: Sequence[str]) -> dict[str, dict[str, Any]]:
    return {identity: json.loads(facts) for identity, facts in connection.execute("""
        SELECT environment_id, facts FROM environments WHERE environment_id IN (SELECT unnest(?))""",
        [list(identities)]).fetchall()}


def list_readings(connection: duckdb.DuckDBPyConnection, run_ids: Sequence[str]) -> list[tuple[str, str]]:
    """Devices and metrics that at least one of these runs was sampled for more than once."""
    return [(device, metric) for device, metric in connection.execute("""
        SELECT DISTINCT device, metric FROM sample_summaries
        WHERE run_id IN (SELECT unnest(?)) AND count > 1 ORDER BY ALL""", [list(run_ids)]).fetchall()]


def overlaid_samples(connection: duckdb.DuckDBPyConnection, run_ids: Sequence[str], device: str,
                     metric: str) -> list[Answer]:
    """One reading of several runs over each one's own seconds; a long run is told by means over equal parts of it."""
    return ask(connection, f"""
        WITH mine AS (SELECT run_id, time_s, value FROM samples WHERE run_id IN (SELECT unnest($run_ids))
                      AND device = $device AND metric = $metric),
        ends AS (SELECT run_id, min(time_s) AS first_s, greatest(max(time_s) - min(time_s), 1e-9) AS long_s FROM mine
                 GROUP BY run_id)
        SELECT run_id, avg(time_s) AS time_s, avg(value) AS value FROM mine JOIN ends USING (run_id)
        GROUP BY run_id, floor((time_s - first_s) / long_s * {POINTS}) ORDER BY run_id, time_s""",
        {"run_ids": list(run_ids), "device": device, "metric": metric})


def same_cell_runs(connection: duckdb.DuckDBPyConnection, run: ComparedRun) -> list[str]:
    """Ok runs of the same experiment with the same parameters, the newest first: asked for alike, or alike in all that
    took effect. Imported ones are left out: when and where they were measured is not known."""
    settings = [[name, json.dumps(value, separators=(",", ":"))] for name, value in run.settings.items()
                if value is not None]
    return [row[0] for row in connection.execute(f"""
        WITH wanted AS (SELECT entry[1] AS name, entry[2] AS value FROM (SELECT unnest($settings) AS entry)),
        others AS (SELECT run_id FROM runs WHERE experiment = $experiment AND status = 'ok' AND {KEPT}
                   AND sweep_id NOT IN (SELECT sweep_id FROM sweeps WHERE source = 'imported')),
        alike AS (SELECT p.run_id FROM parameters p LEFT JOIN wanted w
                      ON w.name = p.name AND w.value = coalesce(p.effective, p.asked)::VARCHAR
                  WHERE p.run_id IN (FROM others) AND coalesce(p.effective, p.asked)::VARCHAR <> 'null'
                  GROUP BY p.run_id HAVING count(*) = count(w.name) AND count(*) = $settings_count)
        SELECT run_id FROM runs WHERE run_id IN (FROM others)
        AND (cell_key = $cell_key OR run_id IN (FROM alike)) ORDER BY started_at DESC, run_id LIMIT {MOST_RUNS}""",
        {"settings": settings, "settings_count": len(settings), "experiment": run.experiment,
         "cell_key": run.cell_key}).fetchall()]
