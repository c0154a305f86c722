"""Charts of the Training page: time per image against plain training, epochs, loss curves, efficiency."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import altair as alt
import pandas as pd

from analysis.training import Curve, Published, TrainedCell, TrainingRun, published_ratio, smooth
from ui.charts import whiskers_over_bars
from ui.colours import NEUTRAL, SERIES
from ui.picking import RUN_IDS, join_ids

Label = Callable[[TrainingRun], str]
OWN, STUDY = "own runs", "seed 002, published"
SOURCES = {OWN: SERIES[0], STUDY: SERIES[1]}
FEW_BATCHES = 60
ESTIMATED, ACTUAL = "estimated", "actual"
EPOCHS = {ESTIMATED: SERIES[7], ACTUAL: SERIES[0]}


def ratio_frame(cells: Sequence[TrainedCell], published: Sequence[Published], label: Label) -> pd.DataFrame:
    rows = [{"cell": label(cell.first), "source": OWN, "ratio": cell.against.value, "low": cell.against.low,
             "high": cell.against.high, "verdict": cell.against.verdict + other_batch_text(cell),
             RUN_IDS: join_ids(cell.run_ids)} for cell in cells if cell.against]
    rows += [{"cell": _published_label(row), "source": STUDY, "ratio": ratio, "low": None, "high": None,
              "verdict": "one run, no interval" + (f"; {row.caveat}" if row.caveat else ""), RUN_IDS: ""}
             for row in published
             if (ratio := published_ratio(row, published)) is not None]
    return pd.DataFrame(rows, columns=["cell", "source", "ratio", "low", "high", "verdict", RUN_IDS])


def other_batch_text(cell: TrainedCell) -> str:
    """Beside a ratio that also holds the effect of another batch."""
    return f", plain at another batch per device ({cell.plain_batch_size})" if cell.plain_batch_size else ""


def _published_label(row: Published) -> str:
    return f"{row.method}, {row.devices} {'device' if row.devices == 1 else 'devices'} (seed 002)"


def ratio_dots(frame: pd.DataFrame) -> alt.LayerChart:
    """Below 1 is faster than plain training, which is the dashed line."""
    scale = alt.Scale(zero=True)
    base = alt.Chart(frame).encode(y=alt.Y("cell:N", title=None, sort=list(frame["cell"]),
                                           axis=alt.Axis(labelLimit=260)))
    shown = [source for source in SOURCES if source in set(frame["source"])]
    dots = base.mark_point(filled=True, size=90, opacity=1).encode(
        x=alt.X("ratio:Q", title="Time per image, times plain training's", scale=scale),
        color=alt.Color("source:N", title=None, legend=alt.Legend(orient="top"),
                        scale=alt.Scale(domain=shown, range=[SOURCES[source] for source in shown])),
        shape=alt.Shape("source:N", title=None, scale=alt.Scale(domain=shown, range=["circle", "diamond"])),
        tooltip=[alt.Tooltip("cell:N", title="Method"), alt.Tooltip("source:N", title="From"),
                 alt.Tooltip("ratio:Q", title="Ratio", format=".3f"),
                 alt.Tooltip("low:Q", title="Interval from", format=".3f"),
                 alt.Tooltip("high:Q", title="Interval to", format=".3f"),
                 alt.Tooltip("verdict:N", title="It is")])
    whiskers = base.mark_rule(strokeWidth=2, color=NEUTRAL).encode(x=alt.X("low:Q", scale=scale), x2="high:Q")
    one = alt.Chart(alt.Data(values=[{"one": 1}])).mark_rule(strokeDash=[4, 4], color=NEUTRAL).encode(
        x=alt.X("one:Q", scale=scale))
    return alt.layer(one, whiskers, dots, data=frame).properties(height=alt.Step(28))


def epoch_frame(cells: Sequence[TrainedCell], label: Label) -> pd.DataFrame:
    return pd.DataFrame([
        {"cell": label(cell.first), "epoch": kind, "seconds": found.value, "low": found.low, "high": found.high,
         "runs": cell.runs, "noisy_runs": cell.noisy_runs, RUN_IDS: join_ids(cell.run_ids)}
        for cell in cells for kind, found in ((ESTIMATED, cell.estimated_epoch_s), (ACTUAL, cell.actual_epoch_s))],
        columns=["cell", "epoch", "seconds", "low", "high", "runs", "noisy_runs", RUN_IDS])


def epoch_bars(frame: pd.DataFrame) -> alt.LayerChart:
    base = alt.Chart(frame).encode(
        y=alt.Y("cell:N", title=None, sort=list(dict.fromkeys(frame["cell"])), axis=alt.Axis(labelLimit=260)),
        yOffset=alt.YOffset("epoch:N", sort=[ESTIMATED, ACTUAL]))
    bars = base.mark_bar().encode(
        x=alt.X("seconds:Q", title="Time of one epoch (s)", scale=alt.Scale(zero=True)),
        color=alt.Color("epoch:N", title=None, legend=alt.Legend(orient="top"),
                        scale=alt.Scale(domain=list(EPOCHS), range=list(EPOCHS.values()))),
        tooltip=[alt.Tooltip("cell:N", title="Method"), alt.Tooltip("epoch:N", title="Epoch"),
                 alt.Tooltip("seconds:Q", title="Seconds", format=",.4~g"), alt.Tooltip("runs:Q", title="Runs"),
                 alt.Tooltip("noisy_runs:Q", title="Noisy runs")])
    whiskers = whiskers_over_bars(base, x="low:Q", x2="high:Q")
    return alt.layer(bars, *whiskers, data=frame).properties(height=alt.Step(18))


def loss_frame(curves: Sequence[Curve], labels: dict[str, str]) -> pd.DataFrame:
    """One curve per cell: its first run."""
    first: dict[str, Curve] = {}
    for curve in curves:
        first.setdefault(curve.group, curve)
    return pd.DataFrame([
        {"cell": labels[curve.group], "images": images, "loss": loss, "mean_loss": mean, RUN_IDS: curve.run_id}
        for curve in first.values()
        for images, loss, mean in zip(curve.images, curve.losses, smooth(curve.losses), strict=True)],
        columns=["cell", "images", "loss", "mean_loss", RUN_IDS])


def loss_lines(frame: pd.DataFrame) -> alt.LayerChart:
    """Means over a few batches, where there are many, over the losses of single ones. Dashes tell curves apart that lie
    on each other."""
    cells = list(dict.fromkeys(frame["cell"]))
    scale = alt.Scale(zero=False)
    base = alt.Chart(frame).encode(
        x=alt.X("images:Q", title="Images trained on", axis=alt.Axis(labelOverlap=True)),
        color=alt.Color("cell:N", title=None, sort=cells, scale=alt.Scale(domain=cells, range=SERIES),
                        legend=alt.Legend(orient="top", columns=2, labelLimit=300, symbolType="stroke",
                                          symbolStrokeWidth=3, symbolOpacity=1)),
        tooltip=[alt.Tooltip("cell:N", title="Method"), alt.Tooltip("images:Q", title="Images"),
                 alt.Tooltip("loss:Q", title="Loss", format=".5~g"),
                 alt.Tooltip("mean_loss:Q", title="Mean loss", format=".5~g")])
    single = base.mark_line(strokeWidth=1, opacity=0.25).encode(
        y=alt.Y("loss:Q", title="Loss of the global batch", scale=scale))
    points = alt.OverlayMarkDef(size=25 if frame.groupby("cell").size().max() <= FEW_BATCHES else 6)
    means = base.mark_line(strokeWidth=2, point=points).encode(
        y=alt.Y("mean_loss:Q", title="Loss of the global batch", scale=scale),
        strokeDash=alt.StrokeDash("cell:N", title=None, sort=cells, legend=None))
    # The legend is inside the height: two names a row.
    return alt.layer(single, means).properties(height=340 + 10 * len(cells))


def efficiency_frame(cells: Sequence[TrainedCell], label: Label) -> pd.DataFrame:
    return pd.DataFrame([
        {"cell": label(cell.first), "devices": cell.first.devices, "efficiency": cell.efficiency.value,
         "low": cell.efficiency.low, "high": cell.efficiency.high, "verdict": cell.efficiency.verdict,
         RUN_IDS: join_ids(cell.run_ids)}
        for cell in cells if cell.efficiency],
        columns=["cell", "devices", "efficiency", "low", "high", "verdict", RUN_IDS])


def efficiency_bars(frame: pd.DataFrame) -> alt.LayerChart:
    scale = alt.Scale(domain=[0, max(1.05, frame["efficiency"].max() * 1.05)])
    base = alt.Chart(frame).encode(y=alt.Y("cell:N", title=None, sort=list(frame["cell"]),
                                           axis=alt.Axis(labelLimit=260)))
    bars = base.mark_bar(color=SERIES[0]).encode(
        x=alt.X("efficiency:Q", title="Efficiency (1: n devices are n times as fast as one)", scale=scale,
                axis=alt.Axis(tickCount=8)),
        tooltip=[alt.Tooltip("cell:N", title="Method"), alt.Tooltip("efficiency:Q", title="Efficiency", format=".3f"),
                 alt.Tooltip("low:Q", title="Interval from", format=".3f"),
                 alt.Tooltip("high:Q", title="Interval to", format=".3f")])
    whiskers = whiskers_over_bars(base, x=alt.X("low:Q", scale=scale), x2="high:Q")
    one = alt.Chart(alt.Data(values=[{"one": 1}])).mark_rule(strokeDash=[4, 4], color=NEUTRAL).encode(
        x=alt.X("one:Q", scale=scale))
    return alt.layer(bars, *whiskers, one, data=frame).properties(height=alt.Step(28))
