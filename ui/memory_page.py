"""The views of the Memory page that are drawn from runs: one step, depth, time, predicted and measured."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pandas as pd
import streamlit as st

from analysis.lasting_ids import lasting_id
from analysis.memory import CATEGORIES, MemoryCell, MemoryRun, find_front, find_growths, find_savings
from ui.figure import draw_figure, draw_rows_button
from ui.frame import safe
from ui.links import choose
from ui.memory_charts import (
    MIB,
    category_title,
    cell_label,
    depth_frame,
    depth_lines,
    error_dots,
    error_frame,
    peak_moment,
    step_area,
    step_frame,
    tradeoff_frame,
    tradeoff_points,
)
from ui.memory_findings import (
    WITHIN_PERCENT,
    about_difference,
    about_errors,
    about_front,
    about_growths,
    about_saving,
    about_step,
    percent_text,
)
from ui.units import seconds, size

Rows = list[dict[str, Any]]
Moments = Callable[[str], Rows]
PUBLISHED_MODELS = {"Adjusted ResNet": "adjusted_resnet", "RevNet ": "revnet_"}
SHOWN_SAVINGS = 4


def choose_setting(runs: Sequence[MemoryRun]) -> str:
    """Only runs with the same setting are compared; several are told apart by what differs."""
    settings = list(dict.fromkeys(run.setting for run in runs))
    by_id = {lasting_id(setting): setting for setting in settings}
    if len(settings) == 1 and st.query_params.get("setting", *by_id) in by_id:
        return settings[0]
    read = [json.loads(setting) for setting in settings]
    apart = [name for name in read[0] if len({json.dumps(one.get(name)) for one in read}) > 1]
    labels = {known: ", ".join(f"{name}={str(one.get(name))[:12]}" for name in apart) or "the only one"
              for known, one in zip(by_id, read, strict=True)}
    chosen = choose("Setting", list(by_id), "setting", lambda known: labels[known],
                    help="Only runs that agree in all of this are compared.")
    return by_id[chosen] if chosen else settings[0]


def draw_findings(cells: Sequence[MemoryCell]) -> None:
    """What the runs show, before any chart."""
    savings = find_savings(cells)
    sentences = [about_saving(saving) for saving in savings[:SHOWN_SAVINGS]]
    if growth := about_growths(find_growths(cells)):
        sentences.insert(0, growth)
    if len(savings) > SHOWN_SAVINGS:
        more = len(savings) - SHOWN_SAVINGS
        sentences.append(f"{more} more {'comparison' if more == 1 else 'comparisons'} with plain training: see the "
                         "table under Memory against time.")
    if not sentences:
        sentences = ["Nothing to compare yet: measure a model plainly and under another method."]
    with st.container(border=True):
        for sentence in sentences:
            st.markdown(sentence)
        if noisy := sum(cell.noisy_runs for cell in cells):
            st.caption(f"{noisy} of {sum(len(cell.runs) for cell in cells)} runs were noisy: their times say less, "
                       "their memory does not suffer.")


def draw_step(cells: Sequence[MemoryCell], moments_of: Moments) -> None:
    """One step of a cell by category; with a second cell beside it, and what differs."""
    by_name = {cell.name: cell for cell in cells}
    labels = {name: cell_label(cell) for name, cell in by_name.items()}
    places = st.grid(2, min_column_width=280)
    with places.cell():
        first = choose("Cell", list(labels), "cell", lambda name: labels[name]) or cells[0].name
    with places.cell():
        others = [name for name in labels if name != first]
        second = choose("Compared with", others, "with", lambda name: labels[name], index=None,
                        placeholder="nothing: one step alone") if others else None
    chosen = [by_name[name] for name in (first, second) if name is not None]
    steps = [(cell, moments_of(cell.runs[0].run_id)) for cell in chosen]
    missing = [cell_label(cell) for cell, moments in steps if not moments]
    if missing:
        st.info(f"No step was recorded for {safe(', '.join(missing))}: it was measured elsewhere.")
        return
    highest = max(sum(moment["held"].values()) for _, moments in steps for moment in moments) / MIB
    held = []
    panes = st.grid(len(steps), min_column_width=420)
    for number, (cell, moments) in enumerate(steps):
        peak = peak_moment(moments)
        at_peak = {category_title(name): float(moments[peak]["held"].get(f"{name}_bytes", 0)) for name in CATEGORIES}
        held.append(at_peak)
        frame = step_frame(moments)
        with panes.cell():
            draw_figure(about_step(cell, at_peak),
                        step_area(frame, 100 * peak / max(len(moments) - 1, 1), sum(at_peak.values()) / MIB, highest),
                        frame.drop(columns=["order"]), f"memory_step_{number}", f"Run {safe(cell.runs[0].run_id)}.")
    st.caption("After a step that left the optimiser's state behind. The axis counts the operators that were seen, not "
               "time: watching them is slow. Inputs count as activations. What an operator allocates and frees inside "
               "itself is not seen.")
    if len(held) == 2:
        st.markdown(about_difference(cell_label(chosen[0]), cell_label(chosen[1]), *held))
        table = pd.DataFrame([
            {"At the peak": name, labels[first]: size(held[0][name]), labels[str(second)]: size(held[1][name]),
             "Difference": ("+" if held[1][name] > held[0][name] else "") + size(held[1][name] - held[0][name])}
            for name in [*held[0]]])
        st.dataframe(table, hide_index=True, height="content", alt="The two peaks by category, and what differs")


def draw_depth(cells: Sequence[MemoryCell], published: Rows) -> None:
    frame = depth_frame(cells)
    if frame.empty:
        st.info("No ResNet or RevNet among these runs: depth is known of these only.")
    else:
        known = frame[frame["saved_mib"].notna()]
        panes = st.grid(2, min_column_width=420)
        with panes.cell():
            draw_figure(_about_range(frame, "peak_mib", "Peaks"), depth_lines(frame, "peak_mib", "Peak (MiB)"), frame,
                        "peak_by_depth")
        with panes.cell():
            timed = frame[frame["batch_s"].notna()]
            if not timed.empty:
                draw_figure(_about_range(timed, "batch_s", "Times per batch"),
                            depth_lines(frame, "batch_s", "Seconds per batch"), frame, "time_by_depth")
        with panes.cell():
            if not known.empty:
                draw_figure(about_growths(find_growths(cells)) or "Measure a second depth to see how it grows.",
                            depth_lines(known, "saved_mib", "Saved activations (MiB)"), known, "saved_by_depth")
        st.caption("Lines through the means of runs; whiskers are 95 % intervals over runs. Saved activations are "
                   "what is held when the forward pass has ended, the batch itself among it.")
    draw_published(cells, published)


def _about_range(frame: pd.DataFrame, column: str, what: str) -> str:
    low, high = frame.loc[frame[column].idxmin()], frame.loc[frame[column].idxmax()]
    show = (lambda value: size(value * MIB)) if column.endswith("_mib") else seconds
    if low["model"] == high["model"] and low["series"] == high["series"]:
        return f"One network so far: {show(low[column])}."
    return (f"{what} range from **{show(low[column])}** ({safe(low['model'])}, {safe(low['series'])}) to "
            f"**{show(high[column])}** ({safe(high['model'])}, {safe(high['series'])}).")


def published_table(cells: Sequence[MemoryCell], published: Rows) -> pd.DataFrame:
    """Seed 003's rows with own ones beside: RevNets reversible, ResNets plain, as that study ran them."""
    own = {(cell.model, cell.method): cell for cell in cells}
    rows = []
    for row in published:
        beginning = next(name for name in PUBLISHED_MODELS if row["subject"].startswith(name))
        model = PUBLISHED_MODELS[beginning] + row["subject"].removeprefix(beginning).partition("-")[0]
        cell = own.get((model, "reversible" if model.startswith("revnet_") else "plain"))
        mine = next((run.parameters for run in cell.runs if run.parameters), None) if cell else None
        rows.append({"Model": row["subject"], "Published peak": size(row["peak_bytes"]),
                     "Own peak": size(cell.peak.value) if cell else "–",
                     "Published time per batch": seconds(row["batch_s"]),
                     "Own time per batch": seconds(cell.batch.value) if cell and cell.batch else "–",
                     "Published parameters": f"{row['parameters']:,}",
                     "Own parameters": f"{mine:,.0f}" if mine else "–"})
    table = pd.DataFrame(rows)
    return table if cells else table.drop(columns=[name for name in table if name.startswith("Own ")])


def draw_published(cells: Sequence[MemoryCell], published: Rows) -> None:
    if not published:
        return
    st.subheader("Published: seed 003")
    setting = cells[0].runs[0].params if cells else {}
    sentence = ("Seed 003 measured batches of 8 images at 224 px; it names neither its machine nor its optimiser, and "
                "gives no sign of another precision than fp32.")
    if setting:
        sentence += (f" Own runs here: batches of {setting.get('batch_size')} at {setting.get('image_size')} px on "
                     f"{safe(setting.get('device'))}"
                     + _same_work(setting))
    st.markdown(sentence)
    table = published_table(cells, published)
    st.dataframe(table, hide_index=True, height="content", alt="Seed 003's table with own runs beside")
    draw_rows_button(table, "seed_003_memory", "That study's RevNet blocks were never trained: only activation "
                     "gradients were asked for. In this lab every parameter is trained. Own RevNets are the "
                     "reversible ones.")


def _same_work(setting: Mapping[str, Any]) -> str:
    asked = tuple(setting.get(name) for name in ("batch_size", "image_size", "precision"))
    told = f", in {safe(setting.get('precision'))} with {safe(setting.get('optimizer'))}: "
    if asked != (8, 224, "fp32"):
        return told + "other work, so that the columns are not to be divided by each other."
    return told + "the same batches on another machine. Optimisers differ by up to two kept numbers per parameter."


def draw_tradeoff(cells: Sequence[MemoryCell], peaks: Rows) -> None:
    timed = [cell for cell in cells if cell.batch]
    models = list(dict.fromkeys(cell.model for cell in timed))
    if not models:
        st.info("No run has a time per batch.")
        return
    counts = {model: sum(cell.model == model for cell in timed) for model in models}
    ordered = sorted(models, key=lambda model: -counts[model])
    model = (choose("Model", ordered, "model", str) if len(models) > 1 else None) or ordered[0]
    members = [cell for cell in timed if cell.model == model]
    front = find_front(members)
    frame = tradeoff_frame(members, front)
    draw_figure(about_front(members, front), tradeoff_points(frame), frame, "memory_against_time",
                "Down and to the left is better. Circles are on the front, by the means of runs; whiskers are 95 % "
                "intervals of the time, cut off where they are longer than the chart.")
    table = savings_table(cells)
    if not table.empty:
        st.dataframe(table, hide_index=True, height="content", alt="Every method against plain training")
        draw_rows_button(table, "memory_savings")
    draw_peaks(cells, peaks)


def draw_peaks(cells: Sequence[MemoryCell], published: Rows) -> None:
    """What tensors took, and what had to be taken from the device or the system for them."""
    table = peaks_table(cells, published)
    st.markdown("**Allocated, reserved and resident**: tensors take the first; a GPU's allocator takes more from the "
                "device than it hands out, a CPU's process grows by more than its tensors.")
    st.dataframe(table, hide_index=True, height="content", alt="Allocated, reserved and resident memory of every cell")
    draw_rows_button(table, "memory_peaks", "Reserved is known on a GPU only. Resident is the growth of the process "
                     "that measured the peak. Seed 002's peaks are resnet18's with Adam at 224 px on a GPU of 16 GB; "
                     "its checkpointed model trained only its last layer.")


def peaks_table(cells: Sequence[MemoryCell], published: Rows) -> pd.DataFrame:
    def row(name: str, batch: Any, peak: float, reserved: float | None, resident: float | None) -> dict[str, Any]:
        over = reserved if reserved is not None else resident
        return {"Cell": name, "Batch size": str(batch), "Allocated": size(peak), "Reserved": size(reserved),
                "Resident growth": size(resident), "Times allocated": f"{over / peak:.2f}" if over else "–"}

    own = [row(cell_label(cell), cell.runs[0].params.get("batch_size", "–"), cell.peak.value,
               cell.reserved_bytes, cell.resident_bytes) for cell in cells]
    return pd.DataFrame([*own, *(row(f"{one['model']}, {one['method']} (seed 002, published)", one["batch_size"],
                                     one["allocated_bytes"], one["reserved_bytes"], None) for one in published)])


def savings_table(cells: Sequence[MemoryCell]) -> pd.DataFrame:
    def interval(ratio: Any) -> str:
        return f"{ratio.value:.3f}" + (f" [{ratio.low:.3f}, {ratio.high:.3f}]" if ratio.low is not None else "")

    return pd.DataFrame([
        {"Model": one.cell.model, "Method": cell_label(one.cell, with_model=False), "Peak, times plain's":
         interval(one.peak), "Time, times plain's": interval(one.time) if one.time else "–",
         "Time is": one.time.verdict if one.time else "–", "Runs": f"{len(one.cell.runs)}"
         + (f", {one.cell.noisy_runs} noisy" if one.cell.noisy_runs else "")} for one in find_savings(cells)])


def draw_errors(cells: Sequence[MemoryCell]) -> None:
    frame = error_frame(cells)
    if frame.empty:
        st.info("No run has a prediction: they were measured elsewhere.")
        return
    draw_figure(about_errors(frame), error_dots(frame, WITHIN_PERCENT), frame, "predicted_and_measured",
                "Measured is the allocator's peak, read by another instrument than the one that predicts. Dashed: "
                f"±{WITHIN_PERCENT:g} %.")
    table = pd.DataFrame([
        {"Cell": row.cell, "Run": row.run_id, "Predicted": size(row.predicted_mib * MIB),
         "Measured": size(row.measured_mib * MIB), "Error": percent_text(row.error_percent),
         "Noisy": "noisy" if row.noisy else ""} for row in frame.itertuples()])
    st.dataframe(table, hide_index=True, alt="Predicted and measured peak of every run, with the error")
