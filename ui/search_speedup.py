"""Model search, speed-up: how many times as long fine-tuning takes as extraction, own runs beside the published."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt
import pandas as pd
import streamlit as st

from analysis.comparison import Ratio
from analysis.search import Published, SpeedUp
from ui.charts import whiskers_over_bars
from ui.colours import NEUTRAL, SERIES
from ui.figure import draw_figure
from ui.frame import safe
from ui.picking import RUN_IDS, join_ids
from ui.units import seconds

OWN, STUDY = "this lab", "seed 000, RTX A5000"
WIDEST = 2.0
COLOURS = {OWN: SERIES[0], STUDY: SERIES[6]}
NOTE = ("Fine-tuning is training and validation of all epochs, extraction one pass over the same images without a "
        "score. The start of process, data and model is in neither; the start of loader workers, where there are any, "
        "is in both. Bars: geometric mean over runs. Whiskers: 95 % interval of the ratio (Welch's t on logarithms); "
        "none where a side has one run; long ones leave the chart.")
PUBLISHED = "Published figures are one number each, of ten epochs, and do not say which start-up they hold."


def why_no_pair(parted: Sequence[str]) -> str:
    """`parted` are the models that only their environments keep apart."""
    if not parted:
        return "There is no model here that was both fine-tuned and extracted with the same settings."
    return (f"Fine-tuning and extraction of {safe(', '.join(parted))} have the same settings, but different "
            "environments: the machine, a version or PhaseLab's own code changed between them, and their ratio would "
            "hold that change, too. Measure both sides again; Compare tells what changed.")


def draw_speed_up(pairs: Sequence[SpeedUp], published: Sequence[Published], alone: Sequence[str]) -> None:
    rows = speed_up_frame(pairs, published)
    draw_figure(about_speed_up(pairs), speed_up_bars(rows), rows, "speed_up",
                f"{NOTE} {PUBLISHED}" if pairs else PUBLISHED, measured=bool(pairs))
    if pairs:
        st.dataframe(speed_up_table(pairs), hide_index=True, height="content",
                     alt="Every pair with its ratio, interval, times and runs")
    if alone:
        st.caption(f"Without a counterpart in the chosen sweeps: {safe(', '.join(alone))}. Both sides are compared "
                   "only when everything that both were asked for is equal and the environment is the same.")


def speed_up_frame(pairs: Sequence[SpeedUp], published: Sequence[Published]) -> pd.DataFrame:
    """One row per bar."""
    own = [{"pair": label(pair), "model": pair.model, "images": pair.items, "source": OWN, "times": pair.ratio.value,
            "low": pair.ratio.low, "high": pair.ratio.high, "finetune_s": pair.finetune.value,
            "extract_s": pair.extract.value, "epochs": pair.epochs, "layers": pair.layers, "setting": pair.other,
            "finetune_runs": pair.finetune.runs, "extract_runs": pair.extract.runs, "noisy_runs": pair.noisy_runs,
            RUN_IDS: join_ids(pair.run_ids)} for pair in pairs]
    theirs = [{"pair": f"{pair.model}, {pair.train + pair.val:,} images, published", "model": pair.model,
               "images": pair.train + pair.val, "source": STUDY, "times": pair.ratio, "low": None, "high": None,
               "finetune_s": pair.finetune_s, "extract_s": pair.extract_s, "epochs": 10, "layers": "all",
               "setting": "", "finetune_runs": None, "extract_runs": None, "noisy_runs": None,
               RUN_IDS: ""} for pair in published]
    return pd.DataFrame(own + theirs)


def label(pair: SpeedUp) -> str:
    words = [pair.model, f"{pair.items:,} images", "head only" if pair.layers == "head" else "",
             f"{pair.epochs} epochs" if pair.epochs != 10 else "", pair.other[:60]]
    return ", ".join(word for word in words if word) + (" (noisy)" if pair.noisy_runs else "")


def speed_up_bars(rows: pd.DataFrame) -> alt.LayerChart:
    sources = [source for source in (OWN, STUDY) if source in set(rows["source"])]
    # Two runs can have an interval a hundred times as wide as the bars: it may leave the chart.
    highest = float(rows["times"].max())
    end = min(WIDEST * highest, 1.15 * max(highest, float(rows["high"].max()) if rows["high"].notna().any() else 0.0))
    base = alt.Chart(rows).encode(y=alt.Y("pair:N", title=None, sort=list(dict.fromkeys(rows["pair"])),
                                          axis=alt.Axis(labelLimit=330)))
    bars = base.mark_bar(height=14).encode(
        x=alt.X("times:Q", title="Fine-tuning / extraction (times)", scale=alt.Scale(domain=[0, end], nice=False),
                stack=None),
        color=alt.Color("source:N", title=None, sort=sources, legend=alt.Legend(orient="top"),
                        scale=alt.Scale(domain=sources, range=[COLOURS[s] for s in sources])),
        tooltip=[alt.Tooltip("pair:N", title="Pair"), alt.Tooltip("times:Q", title="Times", format=".3~g"),
                 alt.Tooltip("low:Q", title="from", format=".3~g"), alt.Tooltip("high:Q", title="to", format=".3~g"),
                 alt.Tooltip("finetune_s:Q", title="Fine-tuning (s)", format=",.4~g"),
                 alt.Tooltip("extract_s:Q", title="Extraction (s)", format=",.4~g"),
                 alt.Tooltip("noisy_runs:Q", title="Noisy runs")])
    whiskers = whiskers_over_bars(base.transform_filter("isValid(datum.low)"), x=alt.X("low:Q"), x2="high:Q")
    values = base.mark_text(align="left", dx=6, baseline="middle", fontSize=12, color=NEUTRAL).encode(
        x=alt.X("end:Q"), text=alt.Text("times:Q", format=".1f")).transform_calculate(
        end=f"isValid(datum.high) && datum.high < {0.94 * end} ? datum.high : datum.times")
    return alt.layer(bars, *whiskers, values).properties(height=alt.Step(24))


def about_speed_up(pairs: Sequence[SpeedUp]) -> str:
    if not pairs:
        return "Published only: no pair of own runs to compare yet."
    values = [pair.ratio.value for pair in pairs]
    least, most = min(values), max(values)
    span = f"**{least:.1f} times**" if len(pairs) == 1 else f"**{least:.1f} to {most:.1f} times**"
    untold = [pair for pair in pairs if pair.ratio.verdict == "too few runs to tell"]
    unshown = [pair for pair in pairs if pair.ratio.verdict == "no difference shown"]
    models, sizes = len({pair.model for pair in pairs}), len({pair.items for pair in pairs})
    said = [f"Fine-tuning takes {span} as long as extraction ({models} {'model' if models == 1 else 'models'}, {sizes} "
            f"{'size' if sizes == 1 else 'sizes'})."]
    if unshown:
        said.append(f"No difference shown for {_names(unshown)}: the interval includes 1.")
    if few := [pair for pair in pairs if pair.ratio.caution]:
        said.append(f"From two runs only for {_names(few)}; measure at least three times.")
    if untold:
        said.append(f"Too few runs to tell for {_names(untold)}; measure at least three times.")
    return " ".join(said)


def _names(pairs: Sequence[SpeedUp]) -> str:
    return safe("; ".join(label(pair) for pair in pairs[:4])) + (" and others" if len(pairs) > 4 else "")


def speed_up_table(pairs: Sequence[SpeedUp]) -> pd.DataFrame:
    return pd.DataFrame([
        {"Model, images": label(pair), "Speed-up (times)": f"{pair.ratio.value:.1f}",
         "95 % interval": interval(pair.ratio),
         "Fine-tuning": seconds(pair.finetune.value), "Extraction": seconds(pair.extract.value),
         "Runs of each": f"{pair.finetune.runs} and {pair.extract.runs}"} for pair in pairs])


def interval(ratio: Ratio) -> str:
    return "one run, no interval" if ratio.low is None else f"{ratio.low:.1f} to {ratio.high:.1f}"
