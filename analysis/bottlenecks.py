"""Where a search spends its time: the groups of each cell, full, partial, joint and separate models."""

from __future__ import annotations

import json
from collections.abc import Sequence
from statistics import fmean
from typing import NamedTuple

from analysis.comparison import Ratio, compare
from analysis.lasting_ids import lasting_id
from analysis.search import Cell, SearchRun, gather_cells, tell_apart

GROUPS = ("prepare model", "prepare data", "inference", "score", "unaccounted")
PARTS = {"full": "whole", "last_50%": "last 50 %", "last_25%": "last 25 %", "last_3_blocks": "last 3 blocks",
         "last_1_block": "last block"}
ORDER = list(PARTS)
FORM = ("part", "arrangement", "models", "share_by")
"""Settings that say which part of which networks runs; everything else must be equal to stand side by side."""


class Bar(NamedTuple):
    """One cell over its runs, in seconds per run. Means, because means of groups add up to the mean of the whole."""

    model: str
    items: int
    setting: str
    """What sets it apart besides model, items and form: bars with another setting are not comparable."""
    setting_id: str
    arrangement: str
    part: str
    label: str
    groups_s: dict[str, float]
    total_s: float
    """By the clock: less than the groups together where they overlap on a device."""
    runs: int
    noisy_runs: int
    totals_s: list[float]
    computed_load_s: float | None
    measured_load_s: float | None
    cached_share: float | None
    what_runs: str
    run_ids: tuple[str, ...] = ()

    @property
    def groups_total_s(self) -> float:
        return sum(self.groups_s.values())

    @property
    def overlap_s(self) -> float:
        return max(self.groups_total_s - self.total_s, 0.0)

    def share(self, group: str) -> float:
        """Of the groups together, so that shares add up to one."""
        return self.groups_s[group] / self.groups_total_s


class Joint(NamedTuple):
    """How many times as long the separate models take as the joint network of the same models."""

    model: str
    items: int
    part: str
    models: int
    ratio: Ratio


def bars(runs: Sequence[SearchRun]) -> list[Bar]:
    """Sorted by setting, model, items; then one model from whole to the smallest part, joint beside separate."""
    cells = _merge([cell for cell in gather_cells(runs, "bottleneck") if all(map(_measured, cell.runs))])
    whole = [{name: value for name, value in {**cell.params, "environment": cell.environment_id}.items()
              if name not in (*FORM, "model", "items")} for cell in cells]
    # A setting that an old run did not have is one that nobody asked for.
    found = [_bar(cell, setting, lasting_id({name: value for name, value in params.items() if value is not None}))
             for cell, setting, params in zip(cells, tell_apart(whole, ()), whole, strict=True)]
    return sorted(found, key=lambda bar: (bar.setting, bar.model, bar.items, bar.arrangement != "one",
                                          ORDER.index(bar.part), bar.label))


def _merge(cells: Sequence[Cell]) -> list[Cell]:
    """Cells that ran the same thing as one: what a share is of does not matter to a whole model, nor how many models
    to a single one."""
    merged: dict[str, Cell] = {}
    for cell in cells:
        idle = {*(() if cell.params["part"].endswith("%") else ("share_by",)),
                *(("models",) if cell.params["arrangement"] == "one" else ())}
        params = {name: value for name, value in cell.params.items() if name not in idle}
        key = json.dumps([cell.environment_id, params], sort_keys=True)
        earlier = merged.get(key)
        merged[key] = Cell(params, cell.environment_id, [*(earlier.runs if earlier else []), *cell.runs])
    return list(merged.values())


def _measured(run: SearchRun) -> bool:
    return {"end_to_end_s", "init_model_s", "load_state_s", "model_to_device_s", "score_s"} <= run.metrics.keys()


def groups_of(run: SearchRun) -> dict[str, float]:
    """What no phase of the measured window covers is told, not hidden; phases that overlap on a device leave none."""
    metrics, phases = run.metrics, run.phases_s
    data_s = phases.get("load_data", 0.0) + phases.get("data_to_device", 0.0)
    inference_s = phases.get("inference", 0.0)
    left_s = max(metrics["end_to_end_s"] - data_s - inference_s, 0.0)
    return dict(zip(GROUPS, (_model_s(run), data_s, inference_s, metrics["score_s"], left_s), strict=True))


def _model_s(run: SearchRun) -> float:
    return sum(run.metrics[name] for name in ("init_model_s", "load_state_s", "model_to_device_s"))


def _total_s(run: SearchRun) -> float:
    """The measured window by its own clock, with what happens before and after it."""
    return _model_s(run) + run.metrics["end_to_end_s"] + run.metrics["score_s"]


def _bar(cell: Cell, setting: str, setting_id: str) -> Bar:
    asked = cell.params
    per_run = [groups_of(run) for run in cell.runs]
    totals = [_total_s(run) for run in cell.runs]
    part, arrangement = asked["part"], asked["arrangement"]
    label = PARTS[part] if arrangement == "one" else f"{asked['models']} {arrangement}, {PARTS[part]}"
    if part.endswith("%") and asked["share_by"] != "blocks":
        label += f" by {asked['share_by']}"
    return Bar(asked["model"], asked["items"], setting, setting_id, arrangement, part, label,
               {group: fmean(groups[group] for groups in per_run) for group in GROUPS}, fmean(totals), len(cell.runs),
               cell.noisy, totals, _mean(cell, "load_state_computed_s"), _mean(cell, "load_state_s"),
               _mean(cell, "state_cached_share"), str(cell.runs[0].effective.get("runs", "")),
               tuple(run.run_id for run in cell.runs))


def _mean(cell: Cell, metric: str) -> float | None:
    values = cell.values(metric)
    return fmean(values) if values else None


def joint_gains(found: Sequence[Bar]) -> list[Joint]:
    gains = []
    for joint in found:
        for separate in found:
            if (joint.arrangement, separate.arrangement) == ("joint", "separate") and _same(joint, separate):
                models = int(joint.label.partition(" ")[0])
                gains.append(Joint(joint.model, joint.items, joint.part, models,
                                   compare(separate.totals_s, joint.totals_s)))
    return gains


def _same(a: Bar, b: Bar) -> bool:
    return (a.model, a.items, a.setting, a.label.replace("joint", "separate")) == (b.model, b.items, b.setting, b.label)
