"""Searching a model against fine-tuning it: speed-up per model and size, and whether scores rank as training does.

Only like runs are pooled: the same cell in the same environment. A fine-tuned cell and an extracted one are compared
when everything that both were asked for is equal.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from statistics import fmean, median
from typing import Any, NamedTuple

import numpy as np
from scipy.special import stdtr

from analysis.comparison import Estimate, Ratio, compare, estimate
from analysis.lasting_ids import lasting_id

FINETUNE, EXTRACT = "finetune", "extract"
LAYERS = ("all", "head")
NOT_COMPARED = ("seed", "profile")
"""Of the settings that both sides have, the ones in which they may differ: a seed changes no time."""
SHOWN = ("model", "train_images", "val_images", "epochs", "layers")
"""What every pair is named by anyway."""
ENOUGH_MODELS = 5
SCORES = {"score_linear_top1": "Linear head, top-1", "score_ridge_top1": "Ridge, top-1", "score_lda_top1": "LDA, top-1",
          "score_knn_top1": "Nearest neighbours, top-1", "score_logme": "LogME"}
SCORE_NAMES = {"linear": "linear head", "ridge": "ridge", "lda": "LDA", "knn": "nearest neighbours", "logme": "LogME"}
"""By the name in their metrics' names; the linear head is the score of seed 001."""
EXACT_UP_TO = 8


class SearchRun(NamedTuple):
    """One ok run of finetune, extract or bottleneck."""

    run_id: str
    experiment: str
    cell_key: str
    environment_id: str
    noisy: bool | None
    params: Mapping[str, Any]
    metrics: Mapping[str, float]
    phases_s: Mapping[str, float]
    effective: Mapping[str, Any] = {}


class Cell(NamedTuple):
    """Like runs: one cell in one environment."""

    params: Mapping[str, Any]
    environment_id: str
    runs: list[SearchRun]

    def values(self, metric: str) -> list[float]:
        return [run.metrics[metric] for run in self.runs if run.metrics.get(metric) is not None]

    @property
    def noisy(self) -> int:
        return sum(bool(run.noisy) for run in self.runs)


class SpeedUp(NamedTuple):
    """Fine-tuning seconds / extraction seconds of one model and data size."""

    model: str
    train: int
    val: int
    epochs: int
    layers: str
    other: str
    """What else sets this pair apart from its neighbours, empty when nothing does."""
    finetune: Estimate
    extract: Estimate
    ratio: Ratio
    noisy_runs: int
    run_ids: tuple[str, ...]
    pair_id: str
    """For links: it stays, whatever other pairs are there."""
    scores_s: Mapping[str, float]
    """What each score of the extracted features took, by its name."""
    first_batch_s: float | None
    """Of the extraction, where loader workers started in it; None without workers."""

    @property
    def items(self) -> int:
        return self.train + self.val


class Published(NamedTuple):
    """A pair of the study, one figure each: no runs, so no interval."""

    model: str
    train: int
    val: int
    finetune_s: float
    extract_s: float

    @property
    def ratio(self) -> float:
        return self.finetune_s / self.extract_s


def gather_cells(runs: Iterable[SearchRun], experiment: str) -> list[Cell]:
    """In the order of their first run."""
    found: dict[tuple[str, str], list[SearchRun]] = {}
    for run in runs:
        if run.experiment == experiment:
            found.setdefault((run.cell_key, run.environment_id), []).append(run)
    return [Cell(members[0].params, members[0].environment_id, members) for members in found.values()]


def speed_ups(runs: Sequence[SearchRun]) -> list[SpeedUp]:
    """Every fine-tuned cell with every extracted cell it can be compared with; the smaller data first."""
    tuned = [cell for cell in gather_cells(runs, FINETUNE) if cell.values("finetune_s")]
    extracted = [cell for cell in gather_cells(runs, EXTRACT) if cell.values("end_to_end_s")]
    pairs = [(a, b) for a in tuned for b in extracted if _alike(a, b)]
    named = tell_apart([{**b.params, **a.params, "extract_seed": b.params.get("seed"), "environment": a.environment_id}
                        for a, b in pairs])
    found = [_speed_up(a, b, other) for (a, b), other in zip(pairs, named, strict=True)]
    return sorted(found, key=lambda pair: (pair.items, pair.model, pair.layers, pair.epochs, pair.other))


def unmatched(runs: Sequence[SearchRun]) -> list[str]:
    """Models of fine-tuned cells that no extracted cell fits, and the other way round."""
    tuned, extracted = gather_cells(runs, FINETUNE), gather_cells(runs, EXTRACT)
    alone = [a for a in tuned if not any(_alike(a, b) for b in extracted)]
    alone += [b for b in extracted if not any(_alike(a, b) for a in tuned)]
    return sorted({f"{cell.params.get('model')} ({cell.runs[0].experiment})" for cell in alone})


def parted_by_environment(runs: Sequence[SearchRun]) -> list[str]:
    """Models whose fine-tuning and extraction agree in every setting, but were measured in different environments."""
    return sorted({str(tuned.params.get("model")) for tuned in gather_cells(runs, FINETUNE)
                   for extracted in gather_cells(runs, EXTRACT)
                   if _same_settings(tuned, extracted) and not _alike(tuned, extracted)})


def _alike(tuned: Cell, extracted: Cell) -> bool:
    return tuned.environment_id == extracted.environment_id and _same_settings(tuned, extracted)


def _same_settings(tuned: Cell, extracted: Cell) -> bool:
    both = (tuned.params.keys() & extracted.params.keys()) - set(NOT_COMPARED)
    return all(tuned.params[name] == extracted.params[name] for name in both)


def _speed_up(tuned: Cell, extracted: Cell, other: str) -> SpeedUp:
    finetune_s, extract_s = tuned.values("finetune_s"), extracted.values("end_to_end_s")
    asked = tuned.params
    # Left open, it is what took effect.
    val = asked.get("val_images") or tuned.runs[0].effective["val_images"]
    digest = lasting_id(tuned.runs[0].cell_key, extracted.runs[0].cell_key, tuned.environment_id)
    first_batch_s = extracted.values("first_batch_s") if extracted.params.get("workers") else []
    return SpeedUp(asked["model"], asked["train_images"], val, asked["epochs"], asked["layers"], other,
                   estimate(finetune_s), estimate(extract_s), compare(finetune_s, extract_s),
                   tuned.noisy + extracted.noisy, tuple(run.run_id for run in (*tuned.runs, *extracted.runs)),
                   f"{asked['model']}-{asked['train_images'] + val}-{digest}",
                   {name: estimate(values).value for name in SCORE_NAMES
                    if (values := extracted.values(f"score_{name}_s"))},
                   estimate(first_batch_s).value if first_batch_s else None)


def tell_apart(settings: Sequence[Mapping[str, Any]], shown: Collection[str] = SHOWN) -> list[str]:
    """Each by the settings that differ among them and are not shown anyway; empty when there are none."""
    names = dict.fromkeys(name for setting in settings for name in setting)
    varying = [name for name in names if name not in shown
               and len({str(setting.get(name)) for setting in settings}) > 1]
    return [", ".join(f"{name}={setting.get(name)}" for name in varying) for setting in settings]


class Agreement(NamedTuple):
    """Do models that score high also reach a high accuracy? `rho` is Spearman's, None with too few models."""

    score: str
    setting: str
    """What sets its runs apart from those of the other agreements; empty when there is one setting."""
    setting_id: str
    layers: str
    """What fine-tuning trained."""
    train: int
    models: list[str]
    scores: list[float]
    accuracies: list[float]
    """Medians over the runs of a model, its seeds pooled."""
    rho: float | None
    chance: float | None
    """The share of all orders that would agree (or disagree) at least as strongly."""
    tuned_seeds: list[int]
    scored_seeds: list[int]
    noisy_runs: int


class _Group(NamedTuple):
    """Runs of one setting, by model. A seed draws other random weights of the same model: its runs are pooled."""

    params: Mapping[str, Any]
    tuned: dict[str, list[SearchRun]]
    scored: dict[str, list[SearchRun]]


def agreements(runs: Sequence[SearchRun]) -> dict[str, list[Agreement]]:
    """By the layers that were trained, those of all layers first."""
    found = {layers: _agreements(runs, layers) for layers in LAYERS}
    return {layers: members for layers, members in found.items() if members}


def _agreements(runs: Sequence[SearchRun], layers: str) -> list[Agreement]:
    """One per setting and score, over the models that were both fine-tuned and scored on the same images in the same
    environment; the setting with the most models first, of equal ones that with more images."""
    tuned = [cell for cell in gather_cells(runs, FINETUNE) if cell.params.get("layers") == layers
             and cell.values("val_accuracy")]
    groups: dict[str, _Group] = {}
    taken: set[tuple[str, int]] = set()
    for a, b in ((a, b) for a in tuned for b in gather_cells(runs, EXTRACT) if _alike(a, b)):
        params = {name: value for name, value in {**b.params, **a.params, "environment": a.environment_id}.items()
                  if name not in ("model", *NOT_COMPARED)}
        key = str(sorted((name, str(value)) for name, value in params.items()))
        group = groups.setdefault(key, _Group(params, {}, {}))
        for cell, side in ((a, group.tuned), (b, group.scored)):
            members = side.setdefault(cell.params["model"], [])
            # A cell comes once for every cell of the other side that it fits.
            members += [run for run in cell.runs if (key, id(run)) not in taken]
            taken |= {(key, id(run)) for run in cell.runs}
    largest = sorted(groups.items(), key=lambda item: (-len(item[1].tuned), -item[1].params["train_images"]))
    settings = tell_apart([group.params for _, group in largest], ())
    found = [_agreement(group, setting, lasting_id(key), score)
             for (key, group), setting in zip(largest, settings, strict=True) for score in SCORES]
    return [agreement for agreement in found if agreement]


def _agreement(group: _Group, setting: str, setting_id: str, score: str) -> Agreement | None:
    scored = {model: having for model, members in group.scored.items() if (having := _with(members, score))}
    if not scored:
        return None
    tuned = {model: _with(group.tuned[model], "val_accuracy") for model in scored}
    scores = [median(run.metrics[score] for run in members) for members in scored.values()]
    accuracies = [median(run.metrics["val_accuracy"] for run in members) for members in tuned.values()]
    rho, chance = rank_correlation(scores, accuracies)
    noisy = sum(bool(run.noisy) for side in (tuned, scored) for members in side.values() for run in members)
    return Agreement(score, setting, setting_id, group.params["layers"], group.params["train_images"], list(scored),
                     scores, accuracies, rho, chance, _seeds(tuned), _seeds(scored), noisy)


def _with(runs: Iterable[SearchRun], metric: str) -> list[SearchRun]:
    return [run for run in runs if run.metrics.get(metric) is not None]


def _seeds(members: Mapping[str, Sequence[SearchRun]]) -> list[int]:
    return sorted({run.params.get("seed", 0) for runs in members.values() for run in runs})


def rank_correlation(a: Sequence[float], b: Sequence[float]) -> tuple[float | None, float | None]:
    """Spearman's rho, equal values sharing a rank, and how often chance alone gives as much. None with fewer than five
    pairs, or when one side is all alike."""
    if len(a) < ENOUGH_MODELS or len(set(a)) < 2 or len(set(b)) < 2:
        return None, None
    ranks_a, ranks_b = _ranks(a), _ranks(b)
    rho = _pearson(ranks_a, ranks_b)
    if len(a) <= EXACT_UP_TO:
        # All orders at once. Only the sum of products differs between them.
        centred_a, centred_b = np.asarray(ranks_a) - fmean(ranks_a), np.asarray(ranks_b) - fmean(ranks_b)
        products = np.array(list(itertools.permutations(centred_b))) @ centred_a
        return rho, float(np.mean(np.abs(products) >= abs(centred_a @ centred_b) - 1e-9))
    if abs(rho) >= 1 - 1e-12:
        return rho, 0.0
    t = abs(rho) * math.sqrt((len(a) - 2) / (1 - rho**2))
    return rho, float(2 * stdtr(len(a) - 2, -t))


def _ranks(values: Sequence[float]) -> list[float]:
    ordered = sorted(values)
    return [ordered.index(value) + (ordered.count(value) - 1) / 2 for value in values]


def _pearson(a: Sequence[float], b: Sequence[float]) -> float:
    mean_a, mean_b = fmean(a), fmean(b)
    above = sum((x - mean_a) * (y - mean_b) for x, y in zip(a, b, strict=True))
    below = math.sqrt(sum((x - mean_a) ** 2 for x in a) * sum((y - mean_b) ** 2 for y in b))
    return above / below
