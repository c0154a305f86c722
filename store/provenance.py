"""Where numbers come from: the sweeps that a link names, when they were measured, on what machine, at which commit."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

import duckdb

from store.queries import ask

SWEEP_ID = re.compile(r"\b\d{8}-\d{6}-[0-9a-f]{4}\b")


def named_sweeps(texts: Iterable[str]) -> list[str]:
    """Ids of sweeps in these texts, alone or as the beginning of a run's id."""
    return list(dict.fromkeys(found for text in texts for found in SWEEP_ID.findall(text)))


def find_provenance(connection: duckdb.DuckDBPyConnection, sweep_ids: list[str]) -> list[dict[str, Any]]:
    """A sweep each, with every environment its runs were measured in; moments as text, so that it can be kept."""
    sweeps = ask(connection, """
        SELECT sweep_id, name, experiment, source, strftime(created_at, '%Y-%m-%d %H:%M UTC') AS created_at
        FROM sweeps WHERE list_contains($ids, sweep_id) AND sweep_id NOT IN (SELECT target FROM deleted)
        ORDER BY list_position($ids, sweep_id)""", {"ids": sweep_ids})
    for sweep in sweeps:
        sweep["environments"] = [_essence(json.loads(facts)) for (facts,) in connection.execute("""
            SELECT facts FROM environments WHERE environment_id IN (
                SELECT environment_id FROM runs WHERE sweep_id = ?) ORDER BY environment_id""",
            [sweep["sweep_id"]]).fetchall()]
    return sweeps


def count_results(connection: duckdb.DuckDBPyConnection) -> tuple[int, ...]:
    """Grows or changes when a run ends or a person does something: what is drawn from results is true until then."""
    found = connection.execute("""
        SELECT (SELECT count(*) FROM runs WHERE ended_at IS NOT NULL), (SELECT count(*) FROM attempts),
               (SELECT count(*) FROM annotations), (SELECT count(*) FROM sweeps)""").fetchone()
    assert found
    return tuple(found)


def _essence(facts: dict[str, Any]) -> dict[str, Any]:
    libraries = facts.get("libraries") or {}
    return {"hostname": facts.get("hostname"), "cpu_model": facts.get("cpu_model"), "cores": facts.get("cores_allowed"),
            "gpus": [gpu.get("name") for gpu in facts.get("gpus") or []], "driver": facts.get("driver_version"),
            "python": facts.get("python"), "torch": libraries.get("torch"), "commit": facts.get("git_commit"),
            "changed_since_commit": bool(facts.get("git_dirty"))}
