"""The parts of the Training page, each with the sentence that its numbers make."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pandas as pd
import streamlit as st

from analysis.comparison import Estimate, Ratio
from analysis.memory import count_layers, family_of
from analysis.training import (
    ALIKE,
    BASELINE,
    Curve,
    Likeness,
    Published,
    TrainedCell,
    TrainingRun,
    published_ratio,
)
from store.published import STUDIES
from ui.figure import draw_figure, draw_rows_button
from ui.findings import about_few_runs
from ui.frame import draw_compare, safe
from ui.training_charts import (
    Label,
    efficiency_bars,
    efficiency_frame,
    epoch_bars,
    epoch_frame,
    loss_frame,
    loss_lines,
    other_batch_text,
    ratio_dots,
    ratio_frame,
)
from ui.units import number, seconds

STUDY = "seed 002"


def in_order(runs: Sequence[TrainingRun]) -> list[TrainingRun]:
    """By model, the deepest of a kind last; then as seed 002 lists its methods, by devices and batch."""
    known = {method: place for place, method in
             enumerate((BASELINE, "checkpointing", "reversible", "dp", "ddp", "fsdp"))}
    return sorted(runs, key=lambda run: (family_of(run.model) or run.model, count_layers(run.model) or 0,
                                         known.get(run.method, len(known)), run.devices, run.device_batch_size))


def draw_endings(endings: Sequence[tuple[str, str, int]]) -> None:
    """What is not in the figures, with the reasons."""
    if endings:
        said = "; ".join(f"{count} {status}" + (f" ({safe(reason)})" if reason else "")
                         for status, reason, count in endings[:6])
        st.caption(f"Not in the figures: {said}{' …' if len(endings) > 6 else ''}. Find them on the "
                   "Runs page.")


def draw_environments(runs: Sequence[TrainingRun], sweep_id: str) -> None:
    """A sweep that was resumed after an upgrade is two measurements."""
    if (count := len({run.environment_id for run in runs})) > 1:
        st.warning(f"These runs were measured in {count} environments, as happens when a sweep is resumed after an "
                   "upgrade. They are neither pooled nor compared across them. Compare shows what differs.")
        draw_compare([sweep_id], "See what differs")


def make_label(runs: Sequence[TrainingRun]) -> Label:
    """Cells by method and devices, and by whatever else sets them apart within the sweep, the environment too."""
    names = [name for name in runs[0].params if name not in ("method", "devices")
             and len({repr(run.params.get(name)) for run in runs}) > 1]
    several = len({run.environment_id for run in runs}) > 1

    def label(run: TrainingRun) -> str:
        devices = f"{run.devices} {'device' if run.devices == 1 else 'devices'}"
        recomputes = run.method in ("dp", "ddp", "fsdp") and run.params.get("checkpoint_parallel")
        method = f"{run.method}, checkpointed" if recomputes else run.method
        return ", ".join([method, devices, *(f"{name}={run.params.get(name)}" for name in names),
                          *([f"environment {run.environment_id[:8]}"] if several else [])])

    return label


def ratio_text(ratio: Ratio | None) -> str:
    if ratio is None:
        return "–"
    if ratio.low is None or ratio.high is None:
        return f"{ratio.value:.2f} (no interval: too few runs)"
    return f"{ratio.value:.2f} [{ratio.low:.2f}, {ratio.high:.2f}{ratio.caution}]"


def time_text(found: Estimate) -> str:
    if found.low is None or found.high is None:
        return seconds(found.value)
    return f"{seconds(found.value)} [{seconds(found.low)}, {seconds(found.high)}]"


def draw_methods(cells: Sequence[TrainedCell], published: Sequence[Published], label: Label) -> None:
    st.subheader("Methods against plain training")
    frame = ratio_frame(cells, published, label)
    if any(cell.against for cell in cells):
        draw_figure(about_methods(cells, label), ratio_dots(frame), frame, "training_methods",
                    "Time per image over a whole epoch: own runs over the sweep's own plain training, with 95 % "
                    f"intervals over runs; {STUDY} over its own, whose other methods also checkpointed (DP probably). "
                    "Ratios can be set side by side, times of two machines cannot.")
    else:
        st.markdown(about_methods(cells, label))
    own = own_table(cells, label)
    st.dataframe(own, hide_index=True, height="content", alt="Seed 002's table from own runs")
    draw_rows_button(own, "training_table", "A batch is the global one: times per batch compare only where it is the "
                                            "same. Times per image compare within the sweep, but where plain training "
                                            "had another batch per device, as it says, its effect is in the ratio. "
                                            "Workers are per process: n devices load with n times as many. "
                                            "Start-up (process, data, model, warm-up) and validation are in no other "
                                            "column.")
    draw_published(published)


def about_methods(cells: Sequence[TrainedCell], label: Label) -> str:
    rated = [(cell, cell.against) for cell in cells if cell.against]
    noisy = sum(cell.noisy_runs for cell in cells)
    tail = f" {noisy} of {sum(cell.runs for cell in cells)} runs were noisy." if noisy else ""
    if not rated:
        reasons = sorted({cell.why_not for cell in cells if cell.why_not})
        return (f"Nothing is compared with plain training: {safe('; '.join(reasons) or 'it is the only method')}."
                + tail)
    best, ratio = min(rated, key=lambda pair: pair[1].value)
    words = {"lower": "faster", "higher": "slower", "no difference shown": "no difference shown",
             "too few runs to tell": "too few runs to tell"}
    counts = [f"{sum(found.verdict == verdict for _, found in rated)} {word}" for verdict, word in words.items()
              if any(found.verdict == verdict for _, found in rated)]
    return (f"The least time per image of the other methods has **{safe(label(best.first))}**: "
            f"{safe(ratio_text(ratio))} times that of plain training{other_batch_text(best)}. Of {len(rated)}: "
            f"{', '.join(counts)}." + about_few_runs(found for _, found in rated) + tail)


def own_table(cells: Sequence[TrainedCell], label: Label) -> pd.DataFrame:
    rows: list[dict[str, Any]] = []
    for cell in cells:
        first = cell.first
        plain = first.method == BASELINE
        rows.append({
            "Method": label(first), "Time per image": time_text(cell.image_s),
            "Times plain's": "plain" if plain else
            ratio_text(cell.against) + other_batch_text(cell) if cell.against else f"not comparable: {cell.why_not}",
            "Estimated epoch": seconds(cell.estimated_epoch_s.value), "Actual epoch": time_text(cell.actual_epoch_s),
            "Batch per device": number(first.device_batch_size), "Global batch": number(first.global_batch_size),
            "Time per batch": time_text(cell.batch_s), "Images": number(first.train_images),
            "Start-up": time_text(cell.start_up_s) if cell.start_up_s else "–",
            "Validation": time_text(cell.validation_s) if cell.validation_s else "–",
            "Runs": f"{cell.runs}, {cell.noisy_runs} noisy" if cell.noisy_runs else str(cell.runs)})
    return pd.DataFrame(rows)


def published_table(published: Sequence[Published]) -> pd.DataFrame:
    return pd.DataFrame([{
        "Method": f"{row.method}, {row.devices} {'device' if row.devices == 1 else 'devices'}",
        "Time per image": seconds(row.image_s),
        "Times plain's": "plain" if (ratio := published_ratio(row, published)) is None else f"{ratio:.2f}",
        "Estimated epoch": seconds(row.estimated_epoch_s), "Actual epoch": seconds(row.actual_epoch_s),
        "Batch per device": number(row.device_batch_size), "Global batch": number(row.global_batch_size),
        "Time per batch": seconds(row.batch_s), "Images": number(row.images)} for row in published])


def draw_published(published: Sequence[Published]) -> None:
    if not published:
        return
    st.markdown(f"**Published by {STUDY}** on {STUDIES[STUDY].machine}, one run each, time per image from the actual "
                "epoch:")
    st.dataframe(published_table(published), hide_index=True, height="content", alt="What seed 002 published")
    caveats = "".join(f"\n- {safe(row.method)}: {safe(row.caveat)}." for row in published if row.caveat)
    st.caption("Times plain's: time per image over that of plain training, lower is faster. Not like for like: its "
               "methods had different batches per device, and a model that trains only its last layer does less work. "
               "Estimates are images / batch x time per batch; the actual plain epoch took longer than its estimate, "
               f"those of checkpointing and DP less.\n{caveats}")


def draw_epochs(cells: Sequence[TrainedCell], label: Label) -> None:
    st.subheader("Estimated and actual epoch")
    frame = epoch_frame(cells, label)
    draw_figure(about_epochs(cells, label), epoch_bars(frame), frame, "training_epochs",
                "Estimated: images / global batch x the median time of a batch. Actual: one pass, the loader's start "
                "included; start-up of the run and validation are in neither. Whiskers: 95 % interval over runs. "
                "How many images an epoch has is in the table.")


def about_epochs(cells: Sequence[TrainedCell], label: Label) -> str:
    far = max(cells, key=lambda cell: abs(cell.actual_to_estimated - 1))
    low, high = (pick(cell.actual_to_estimated for cell in cells) for pick in (min, max))
    if len(cells) == 1:
        return (f"The actual epoch takes **{far.actual_to_estimated:.2f} times** the estimate: "
                f"{seconds(far.actual_epoch_s.value)} against {seconds(far.estimated_epoch_s.value)}.")
    if f"{low:.2f}" == f"{high:.2f}":
        return f"Actual epochs of all {len(cells)} cells take **{low:.2f} times** their estimates."
    return (f"Actual epochs take **{low:.2f} to {high:.2f} times** their estimates; furthest off is "
            f"{safe(label(far.first))}: {seconds(far.actual_epoch_s.value)} against "
            f"{seconds(far.estimated_epoch_s.value)}.")


def draw_losses(curves: Sequence[Curve], likeness: Sequence[Likeness], labels: dict[str, str]) -> None:
    st.subheader("Loss over the epoch")
    frame = loss_frame(curves, labels)
    if frame.empty:
        st.caption("These runs kept no losses.")
        return
    draw_figure(about_losses(curves, likeness, labels), loss_lines(frame), frame, "training_loss",
                "The first run of each cell; the loss of the global batch, as it was met in training. Thin: every "
                "batch; thick, where there are many: the mean over a twentieth of them. Rounding differs between "
                "methods and grows from step to step, so that methods that train alike may part late; a wrong gradient "
                "shows in the first batches.")


def about_losses(curves: Sequence[Curve], likeness: Sequence[Likeness], labels: dict[str, str]) -> str:
    ended = [curve for curve in curves if math.isfinite(curve.losses[-1])]
    if not ended:
        return "No curve ends with a finite loss: every training ran away."
    lowest = min(ended, key=lambda curve: curve.losses[-1])
    sentence = (f"The last loss is lowest for **{safe(labels[lowest.group])}**: {number(lowest.losses[-1])} after "
                f"{number(lowest.images[-1])} images, from {number(lowest.losses[0])}.")
    if not likeness:
        return sentence + " No two methods saw the same global batches, so no curves should agree."
    worst = max(likeness, key=lambda pair: pair.difference)
    agree = sum(pair.difference <= ALIKE for pair in likeness)
    pairs = f"{len(likeness)} {'pair' if len(likeness) == 1 else 'pairs'}"
    sentence += (f" Of {pairs} of methods with the same global batches, {agree or 'none'} have the same curve (within "
                 f"{ALIKE:.1%})")
    if worst.difference == 0:
        return sentence + ", to the last digit."
    pair = f"{safe(labels[worst.one])} and {safe(labels[worst.other])}"
    if math.isinf(worst.difference):
        return f"{sentence}; {pair} do not: only one of them has a finite loss throughout."
    sentence += f"; furthest apart are {pair}, by {100 * worst.difference:.2g} % of the loss."
    if worst.difference > ALIKE and worst.alike_images:
        sentence += f" They agree up to {number(worst.alike_images)} images."
    if worst.difference > ALIKE and worst.own_statistics:
        sentence += (" That is batch norm: each device takes the statistics of its own share of the batch. With "
                     "norm=group one and several devices train alike.")
    return sentence


def draw_efficiency(cells: Sequence[TrainedCell], label: Label) -> None:
    st.subheader("Efficiency of several devices")
    frame = efficiency_frame(cells, label)
    if frame.empty:
        st.caption("Sweep `devices`, one and more, for dp, ddp or fsdp: efficiency is against the same method on one "
                   "device with the same batch per device.")
        return
    draw_figure(about_efficiency(cells, label), efficiency_bars(frame), frame, "training_efficiency",
                "Images per second over n times those of one device, same method and batch per device, from the median "
                "time of a batch: the loader's start, a larger part of an epoch of fewer batches, is left out. Workers "
                "are per process. 95 % intervals over runs. On a CPU set threads: otherwise one process uses the cores "
                "of all.")


def about_efficiency(cells: Sequence[TrainedCell], label: Label) -> str:
    rated = [(cell, cell.efficiency) for cell in cells if cell.efficiency]
    cell, ratio = max(rated, key=lambda pair: pair[1].value)
    devices = cell.first.devices
    told = {"higher": "more than its share", "lower": "less than its share",
            "no difference shown": "no difference from full efficiency shown",
            "too few runs to tell": "too few runs to tell"}[ratio.verdict]
    return (f"Highest measured: **{safe(label(cell.first))}**, whose {devices} devices train "
            f"{ratio.value * devices:.2f} times as many images per second as one, an efficiency of "
            f"{safe(ratio_text(ratio))}: {told}.")
