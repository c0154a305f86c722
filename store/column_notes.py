"""What a column means where its name does not say it; beside the schema on the SQL page and in docs/schema.md."""

from __future__ import annotations

NOTES = {
    "sweeps.source": "measured, or imported (from CSV)",
    "sweeps.sessions": "launch, resume and extend count one each",
    "sweeps.planned_runs": "cells x repeats",
    "sweeps.spec": "as it was asked for",
    "runs.cell_key": "the same cell has the same key in every sweep",
    "runs.attempt": "the latest; rows of earlier ones are replaced",
    "runs.status": "ok, failed, oom, killed, timeout, cancelled, skipped, running",
    "runs.wall_s": "seconds, from the request to the end of its process",
    "runs.noisy": "other work disturbed it; NULL where that is unknown",
    "parameters.asked": "NULL for a value that nobody asked for",
    "parameters.effective": "NULL where the run did not say",
    "stages.start_s": "seconds since the run was asked for",
    "batches.start_s": "seconds since the run was asked for",
    "phases.start_s": "seconds since the run was asked for",
    "phases.clock": "host, device or isolated",
    "samples.time_s": "seconds since the run was asked for",
    "samples.value": "unit by metric: cores, bytes, percent, watts",
    "metrics.unit": "s, bytes, items/s, …; empty for a plain number",
    "metrics.origin": "measured by the run, or derived from its rows",
    "phase_summaries.count": "batches with this phase",
    "phase_summaries.first_s": "seconds of the first batch",
    "phase_summaries.steady_median_s": "seconds, start-up and run-out left out; NULL if too short",
    "environments.facts": "hostname, cpu_model, gpus, driver_version, libraries, git_commit, …",
    "files.path": "inside the sweep's folder",
    "annotations.target": "a sweep_id or run_id",
    "annotations.field": "tag, untag, note, archive, unarchive, delete, restore, erase",
    "tags.target": "a sweep_id or run_id", "notes.target": "a sweep_id or run_id",
    "archived.target": "a sweep_id or run_id", "deleted.target": "a sweep_id or run_id",
    "journals.bytes": "uncompressed, read so far",
}
EVERYWHERE = {"run_id": "one cell and repeat of a sweep", "sweep_id": "one launch from a form or file",
              "environment_id": "machine, versions and commit", "experiment": "the question, as Launch names it",
              "repeat": "counts from 1", "reason": "of whatever is not ok", "batch": "counts from 0",
              "noise_reason": "what disturbed it", "name": "of a sweep, parameter or metric"}
ENDINGS = (("_per_s", "per second"), ("_bytes", "bytes"), ("_at", "UTC"), ("_s", "seconds"))


def column_note(table: str, column: str) -> str:
    """Its own note, else the unit that its name ends in."""
    if note := NOTES.get(f"{table}.{column}"):
        return note
    if column == "seconds":
        return "seconds"
    if column in EVERYWHERE:
        return EVERYWHERE[column]
    return next((unit for ending, unit in ENDINGS if column.endswith(ending)), "")
