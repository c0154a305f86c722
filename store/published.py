"""The figures that earlier studies published, as the project carries them: never mixed with own runs.

Sources and caveats are in store/published/SOURCES.md.
"""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any, NamedTuple

import duckdb

FOLDER = Path(__file__).parent / "published"
LAST_LAYER = "trained only its last layer"
TRAINING_CAVEATS = {
    "gradient_checkpointing": LAST_LAYER,
    "data_parallel": "probably checkpointed: its table says not, but its command for DP does, and 1,250 images per GPU "
                     f"do not fit 16 GB plainly; that study's checkpointed model {LAST_LAYER}",
    "distributed_data_parallel": "checkpointed: its script does so by default, whatever its table says; that study's "
                                 f"checkpointed model {LAST_LAYER}",
}
"""What seed 002's own columns do not say of a row, or say otherwise than its text."""


class Study(NamedTuple):
    title: str
    machine: str


STUDIES = {
    "seed 000": Study("fine-tuning against search", "RTX A5000"),
    "seed 001": Study("model search bottlenecks", "RTX A5000, 24 GB"),
    "seed 002": Study("training trade-offs on Tiny ImageNet", "2 x RTX 5000, 16 GB"),
    "seed 003": Study("RevNet and data loading", "not stated"),
    "seed 004": Study("batch size and workers", "RTX A5000"),
}


class Figure(NamedTuple):
    """One published number: which study, of what, under which parameters."""

    study: str
    subject: str
    params: dict[str, Any]
    metric: str
    value: float
    unit: str
    caveat: str = ""


def load_published(connection: duckdb.DuckDBPyConnection) -> None:
    """Put the figures into their own tables, replacing what is there: the files are the truth."""
    figures = read_figures()
    regrets = [(row["data"], int(row["batch_size"]), int(row["workers"]), float(row["mean_relative_regret_published"]),
                int(row["top3_count_published"])) for row in _rows("regret_and_top3")]
    connection.begin()
    try:
        connection.execute("DELETE FROM published")
        connection.executemany("INSERT INTO published VALUES (?, ?, ?, ?, ?, ?, ?)",
                               [(f.study, f.subject, json.dumps(f.params), f.metric, f.value, f.unit, f.caveat or None)
                                for f in figures])
        connection.execute("DELETE FROM published_regret")
        connection.executemany("INSERT INTO published_regret VALUES (?, ?, ?, ?, ?)", regrets)
        connection.commit()
    except BaseException:
        connection.rollback()
        raise


def read_figures() -> list[Figure]:
    """Every figure but the regrets, which are means over models and have a table of their own."""
    return [*_max_batch(), *_search(), *_training(), *_training_memory(), *_revnet(), *_loading()]


def _max_batch() -> list[Figure]:
    return [Figure("seed 001", row["model"], {"model": row["model"]}, "max_batch_size", float(row["max_batch_size"]),
                   "images", "a lower bound: the script skipped sizes" if row["lower_bound_only"] == "true" else "")
            for row in _rows("max_batch_size")]


def _search() -> list[Figure]:
    figures = []
    for row in _rows("search_vs_finetune"):
        params = {"model": row["model"], "train": int(row["train"]), "val": int(row["val"])}
        subject = f"{row['model']}, {row['samples']} images"
        figures += [
            Figure("seed 000", subject, params, "finetune_s", float(row["finetune_10_epochs_s"]), "s", "10 epochs"),
            Figure("seed 000", subject, params, "extract_s", float(row["feature_extraction_s"]), "s"),
        ]
    return figures


def _training() -> list[Figure]:
    figures = []
    for row in _rows("tiny_imagenet_training"):
        params = {"method": row["name"], "batch_size": int(row["batch_size"]), "workers": int(row["workers"])}
        caveat = TRAINING_CAVEATS.get(row["name"], "")
        for metric, column in (("batch_s", "seconds_per_batch"), ("estimated_epoch_s", "estimated_epoch_s"),
                               ("actual_epoch_s", "actual_epoch_s")):
            if row[column]:
                figures.append(Figure("seed 002", row["name"], params, metric, float(row[column]), "s", caveat))
    return figures


def _training_memory() -> list[Figure]:
    return [Figure("seed 002", f"resnet18, {row['method']}",
                   {"model": "resnet18", "method": row["method"], "batch_size": int(row["batch_size"])}, metric,
                   float(row[column]) * 2**30, "bytes",
                   LAST_LAYER if row["method"] == "checkpoint" else "")
            for row in _rows("tiny_imagenet_memory")
            for metric, column in (("peak_memory_bytes", "allocated_gib"), ("peak_reserved_bytes", "reserved_gib"))]


def _revnet() -> list[Figure]:
    figures = []
    for row in _rows("revnet_memory"):
        params = {"model": row["model"], "batch_size": 8}
        caveat = "its blocks were never trained" if row["model"].startswith("RevNet") else ""
        figures += [
            Figure("seed 003", row["model"], params, "peak_memory_bytes",
                   float(row["peak_memory_mb_batch8"]) * 2**20, "bytes", caveat),
            Figure("seed 003", row["model"], params, "batch_s", float(row["time_per_batch_s"]), "s", caveat),
            Figure("seed 003", row["model"], params, "parameters", float(row["parameters"]), "", ""),
        ]
    return figures


def _loading() -> list[Figure]:
    return [Figure("seed 003", row["variant"], {"variant": row["variant"]}, metric, float(row[column]), "s", "one run")
            for row in _rows("data_loading")
            for metric, column in (("load_data_s", "data_loading_s"), ("forward_backward_s", "forward_backward_s"))]


def _rows(name: str) -> list[dict[str, str]]:
    with (FOLDER / f"{name}.csv").open(newline="") as file:
        return list(csv.DictReader(file))
