"""The parts of the Data loading page, each with the sentence that its numbers make."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pandas as pd
import streamlit as st

from analysis.comparison import Ratio
from analysis.loading import LoadingRun, Payoff, Variant, pays_from
from analysis.loading_bound import detect
from ui.figure import draw_figure, draw_rows_button
from ui.findings import about_few_runs
from ui.frame import safe
from ui.links import choose
from ui.loading_charts import (
    ONLY,
    Label,
    latency_frame,
    latency_lines,
    payoff_frame,
    ratio_dots,
    variant_frame,
    wait_frame,
    wait_strip,
)
from ui.units import number, seconds

WHOLE, STEADY = "whole window", "steady state"
ROWS_IN_FULL = 20


def make_label(runs: Sequence[LoadingRun], leave_out: Iterable[str] = ()) -> Label:
    """Cells by what sets them apart within the sweep."""
    names = [name for name in runs[0].params if name not in leave_out
             and len({repr(run.params.get(name)) for run in runs}) > 1]
    return lambda params: ", ".join(f"{name}={params.get(name)}" for name in names) or ONLY


def list_cells(runs: Sequence[LoadingRun], label: Label) -> dict[str, str]:
    """Labels by cell, in the order of their values: numbers as numbers."""
    def place(run: LoadingRun) -> list[tuple[int, float, str]]:
        return [(0, float(value), "") if isinstance(value, int | float) else (1, 0.0, str(value))
                for value in run.params.values()]

    return {run.cell: label(run.params) for run in sorted(runs, key=place)}


def first_cell(spec: str | None, runs: Sequence[LoadingRun], cells: Mapping[str, str]) -> tuple[str, str]:
    """The cell of the first value of everything in the grid: what a sweep file lists first is its baseline. If it has
    no run here, the first of the cells in their order takes its place, and the sentence beside it says so."""
    grid = json.loads(spec).get("grid", {}) if spec else {}
    first = {name: values[0] for name, values in grid.items() if values}
    listed = next((run.cell for run in runs if all(run.params.get(name) == value for name, value in first.items())), "")
    if listed:
        return listed, ""
    said = ", ".join(f"{name}={value}" for name, value in first.items() if len(grid[name]) > 1) or "its first cell"
    instead = next(iter(cells))
    return instead, f"What this sweep lists first, {said}, has no run to show: the baseline is {cells[instead]}."


def choose_environment(runs: Sequence[LoadingRun]) -> Sequence[LoadingRun]:
    """The runs of one environment: of those with equally many, the one that was measured in first."""
    count = Counter(run.environment for run in runs)
    if len(count) < 2:
        return runs
    places = [place for place, _ in count.most_common()]
    chosen = choose("Measured in", places, "environment",
                    lambda place: f"environment {place[:12] or 'unknown'}, {count[place]} runs")
    st.caption(f"This sweep was measured in {len(count)} environments. Their runs are not pooled: choose one. What "
               "sets them apart is on the Runs page.")
    return [run for run in runs if run.environment == chosen]


def ratio_text(ratio: Ratio) -> str:
    if ratio.low is None or ratio.high is None:
        return f"{ratio.value:.2f} times (no interval: too few runs)"
    return f"{ratio.value:.2f} times [{ratio.low:.2f}, {ratio.high:.2f}{ratio.caution}]"


def about_rateless(runs: Sequence[LoadingRun], variants: Sequence[Variant]) -> str:
    """What the steady state leaves out."""
    lost, cells = len(runs) - sum(one.runs for one in variants), len({run.cell for run in runs})
    if not lost:
        return ""
    return (f"{cells - len(variants)} of {cells} cells and {lost} of {len(runs)} runs are not shown: they have no "
            "steady state, because they are too short for one or were imported without its rate.")


def draw_variants(variants: Sequence[Variant], baseline: str, label: Label, window: str,
                  runs: Sequence[LoadingRun]) -> None:
    st.subheader("Variants against the baseline")
    if sentence := about_rateless(runs, variants):
        st.caption(sentence)
    base = next((one for one in variants if one.cell == baseline), None)
    if base is None:
        st.info("The baseline's runs are too short to have a steady state. Choose the whole window, or more batches.")
        return
    frame = variant_frame(variants, label)
    if frame.empty:
        st.markdown(f"One cell so far: {number(base.rate.value)} items per second. A second one makes a comparison.")
    else:
        draw_figure(about_variants(variants, base, label),
                    ratio_dots(frame, "Times the baseline"), frame, "loader_variants",
                    f"Ratio of items per second over the {window} to the baseline {safe(label(base.params))}, with "
                    "95 % intervals over runs.")
    st.markdown(about_limits(variants, label))
    rows = variant_table(variants, baseline, label)
    st.dataframe(rows, hide_index=True, width="stretch", height="content" if len(rows) <= ROWS_IN_FULL else "auto",
                 alt="Every cell with its rate, its waits and what limits it")
    draw_rows_button(rows, "loader_verdicts")


def about_variants(variants: Sequence[Variant], base: Variant, label: Label) -> str:
    rated = [(one, one.ratio) for one in variants if one.ratio]
    best, ratio = max(rated, key=lambda pair: pair[1].value)
    verdicts = [ratio.verdict for _, ratio in rated]
    counts = [f"{verdicts.count(verdict)} {words}" for verdict, words in (
        ("higher", "faster"), ("lower", "slower"), ("no difference shown", "with no difference shown"),
        ("too few runs to tell", "with too few runs to tell")) if verdict in verdicts]
    sentence = (f"The most items per second has **{safe(label(best.params))}**: {ratio_text(ratio)} those of the "
                f"baseline {safe(label(base.params))} ({number(base.rate.value)} items per second). Of {len(rated)} "
                f"{'variant' if len(rated) == 1 else 'variants'}: {', '.join(counts)}."
                + about_few_runs(ratio for _, ratio in rated))
    if ratio.value <= 1:
        sentence = f"No variant has more items per second than the baseline. Of the variants: {sentence}"
    noisy = sum(one.noisy_runs for one in variants)
    return sentence + (f" {noisy} of {sum(one.runs for one in variants)} runs were noisy." if noisy else "")


def variant_table(variants: Sequence[Variant], baseline: str, label: Label) -> pd.DataFrame:
    return pd.DataFrame([{
        "Cell": label(one.params) + (" (baseline)" if one.cell == baseline else ""),
        "Items per second": number(one.rate.value) if one.rate.low is None or one.rate.high is None else
        f"{number(one.rate.value)} [{number(one.rate.low)}, {number(one.rate.high)}]",
        "To the baseline": ratio_text(one.ratio) if one.ratio else "1",
        "Wait per batch": seconds(one.wait_s),
        "First batch": seconds(one.first_batch_s),
        "Limit": one.verdict.limit,
        "Evidence": one.verdict.text,
        "Runs": f"{one.runs}, {one.noisy_runs} noisy" if one.noisy_runs else str(one.runs)}
        for one in sorted(variants, key=lambda one: -one.rate.value)])


def about_limits(variants: Sequence[Variant], label: Label) -> str:
    """How many cells wait for their loader, and how many for their consumer."""
    limits = [one.verdict.limit for one in variants]
    if len(set(limits)) > 1:
        parts = [f"{limits.count(limit)} {limit}" for limit in ("loading-bound", "compute-bound", "undecided")
                 if limit in limits]
        return f"Of {len(limits)} cells: **{', '.join(parts)}**; the evidence is in the table."
    said = f"{safe(label(variants[0].params))}: {variants[0].verdict.text}."
    return f"**{'Every cell is' if len(limits) > 1 else 'The cell is'} {limits[0]}**, such as {said}"


def draw_latency(variants: Sequence[Variant], payoffs: Sequence[Payoff], label: Label) -> None:
    """Where concurrency starts to pay: latency on the x axis where it was swept, else every line of cells at once."""
    st.subheader("Storage latency and concurrent fetch")
    if not payoffs:
        st.caption("Sweep the concurrent fetch (fetch_threads 1 and more) to see where it pays, best over several "
                   "latencies.")
        return
    lines = {label(members[0].others): members for members in _lines(payoffs)}
    if len({one.latency_s for one in payoffs}) == 1:
        frame = payoff_frame(payoffs, label)
        draw_figure(about_one_latency(payoffs), ratio_dots(frame, "Times one by one"), frame, "concurrency",
                    "Ratio of items per second, with 95 % intervals over runs. Vary latency_s in a sweep to see "
                    "where it pays.")
        return
    heading = next(iter(lines))
    if len(lines) > 1:
        heading = choose("Line of cells", list(lines), "line", str) or heading
    members = lines[heading]
    shared = members[0].others
    frame = latency_frame(one for one in variants
                          if all(one.params.get(name) == value for name, value in shared.items()))
    draw_figure(about_concurrency(members), latency_lines(frame), frame, "latency",
                "Items per second with 95 % intervals over runs.")


def _lines(payoffs: Iterable[Payoff]) -> list[list[Payoff]]:
    """By what the cells of a line share."""
    lines: dict[str, list[Payoff]] = {}
    for one in payoffs:
        lines.setdefault(repr(one.others), []).append(one)
    return list(lines.values())


def about_one_latency(payoffs: Sequence[Payoff]) -> str:
    latency = _latency(payoffs[0].latency_s)
    if len(payoffs) == 1:
        (one,) = payoffs
        shown = "**is not shown to pay**" if one.ratio.verdict != "higher" else "**pays**"
        return (f"With {latency}, concurrent fetch by {one.threads} threads {shown}: it is {_outcome(one)}, "
                f"{ratio_text(one.ratio)} the items per second of fetching one by one.")
    outcomes = Counter(_outcome(one) for one in payoffs)
    said = ", ".join(f"{outcome} in {count}" for outcome, count in outcomes.most_common())
    return (f"With {latency}, of {len(payoffs)} comparisons of concurrent fetch with fetching one by one: **{said}**."
            + about_few_runs(one.ratio for one in payoffs))


def about_concurrency(payoffs: Sequence[Payoff]) -> str:
    """Of one line: where concurrency starts to pay, for each number of threads, and where it does not."""
    sentences = []
    for threads in sorted({one.threads for one in payoffs}):
        members = [one for one in payoffs if one.threads == threads]
        start = pays_from(members)
        if start:
            sentences.append(f"With {threads} threads per worker concurrent fetch **pays from "
                             f"{_latency(start.latency_s)} on**: {ratio_text(start.ratio)} the items per second of "
                             "fetching one by one.")
        elif any(one.ratio.verdict == "too few runs to tell" for one in members):
            sentences.append(f"With {threads} threads there are too few runs to tell whether concurrent fetch pays: "
                             "repeat each cell at least three times.")
        else:
            sentences.append(f"With {threads} threads per worker concurrent fetch **is not shown to pay** here.")
        rest = [one for one in members if not start or one.latency_s != start.latency_s]
        sentences += [f"With {_latency(one.latency_s)} it is {_outcome(one)}: {ratio_text(one.ratio)}." for one in rest]
    return " ".join(sentences)


def _latency(latency_s: float) -> str:
    return f"{seconds(latency_s)} of latency per item" if latency_s > 0 else "no latency"


def _outcome(payoff: Payoff) -> str:
    return {"higher": "faster", "lower": "slower", "no difference shown": "no difference shown",
            "too few runs to tell": "too few runs to tell"}[payoff.ratio.verdict]


def draw_waits(run: LoadingRun) -> None:
    """The waits of one run, batch by batch."""
    frame = wait_frame(run)
    if frame.empty:
        st.caption("This run has no waits: it was measured elsewhere.")
        return
    draw_figure(about_waits(run), wait_strip(frame, run.workers), frame, "waits",
                "One run, its first epoch. Batches of a run are not independent: this describes, it does not compare.")


def about_waits(run: LoadingRun) -> str:
    found = detect(run.waits_s, run.workers)
    sentence = f"By the pattern of its waits alone this run is **{found.verdict}**: {found.text}."
    if found.spike_s is not None and found.between_s is not None:
        sentence += (f" Median wait {seconds(found.spike_s)} at every turn of the {run.workers} workers, "
                     f"{seconds(found.between_s)} in between.")
    elif found.spike_s is not None:
        sentence += f" Median wait after the first {seconds(found.spike_s)}."
    return sentence + (f" First wait {seconds(found.first_s)}." if found.first_s is not None else "")


def draw_published(published: Mapping[str, float], variants: Sequence[Variant] = (), baseline: str = "",
                   label: Label = str) -> None:
    """Seed 003's own figures beside what was measured here, if anything was, with other workers and all else equal."""
    st.subheader("Published: seed 003")
    if not {"baseline", "parallel_workers"} <= set(published):
        return
    ratio = published["baseline"] / published["parallel_workers"]
    base = next((one for one in variants if one.cell == baseline), None)
    own = [one for one in variants if base and one.ratio and _differ(one.params, base.params) == {"workers"}]
    rows = pd.DataFrame([
        {"Source": "seed 003, one run", "Variant": "baseline", "Loading an epoch": seconds(published["baseline"]),
         "Rate, times the baseline's": "1"},
        {"Source": "seed 003, one run", "Variant": "parallel workers",
         "Loading an epoch": seconds(published["parallel_workers"]), "Rate, times the baseline's": f"{ratio:.2f}"},
        *({"Source": "this sweep", "Variant": label(one.params), "Loading an epoch": "–",
           "Rate, times the baseline's": ratio_text(one.ratio)} for one in own if one.ratio)])
    st.markdown(f"Seed 003 loaded its epoch in {seconds(published['baseline'])}, and with parallel workers in "
                f"{seconds(published['parallel_workers'])}: {ratio:.2f} times the rate, slower. "
                + ("In this sweep the variants below differ from the baseline in their workers only." if own else
                   "This sweep has no variant that differs from the baseline in its workers only." if variants else ""))
    st.dataframe(rows, hide_index=True, width="stretch")


def _differ(a: Mapping[str, Any], b: Mapping[str, Any]) -> set[str]:
    return {name for name in {*a, *b} if a.get(name) != b.get(name)}
