"""The sentences of the Memory page, each computed from the cells that are drawn."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from analysis.comparison import Ratio
from analysis.memory import Growth, MemoryCell, Saving, is_shown_slower
from ui.frame import safe
from ui.memory_charts import cell_label, method_label
from ui.units import seconds, size

WITHIN_PERCENT = 10.0
FLAT = 0.05
"""Saved activations whose largest is no more than this above their smallest do not grow with depth."""


def ratio_text(ratio: Ratio) -> str:
    if ratio.low is None or ratio.high is None:
        return f"{ratio.value:.2f} times"
    if f"{ratio.low:.2f}" == f"{ratio.high:.2f}":  # memory hardly varies from run to run
        return f"{ratio.value:.2f} times"
    return f"{ratio.value:.2f} times [{ratio.low:.2f}, {ratio.high:.2f}{ratio.caution}]"


def about_saving(saving: Saving) -> str:
    """What a method does to the peak and to the time of a model."""
    to = f"{saving.peak.value:.2f}"
    verb = "leaves" if to == "1.00" else "lowers" if saving.peak.value < 1 else "raises"
    name = safe(cell_label(saving.cell, with_model=False)).capitalize()
    sentence = (f"{name} **{verb} the peak of {safe(saving.cell.model)} {'at' if verb == 'leaves' else 'to'} "
                f"{ratio_text(saving.peak)} plain's**")
    if saving.peak.verdict == "no difference shown" and verb != "leaves":
        sentence = (f"{name} shows no difference in the peak of {safe(saving.cell.model)} ({ratio_text(saving.peak)} "
                    "plain's)")
    if saving.time is None:
        return sentence + "."
    time = ratio_text(saving.time)
    told = {"higher": f"takes {time} its time per batch", "lower": f"takes {time} its time per batch",
            "no difference shown": f"shows no difference in time ({time})",
            "too few runs to tell": f"took {time} its time ({_how_few(saving.time)})"}
    return f"{sentence} and {told[saving.time.verdict]}."


def _how_few(ratio: Ratio) -> str:
    """Why there is no interval."""
    return "one run each, so no interval" if ratio.runs_a == ratio.runs_b == 1 else "too few runs for an interval"


def about_growths(growths: Sequence[Growth]) -> str:
    """RevNets first: flat under reversible blocks, growing without."""
    sentences = []
    for flat in growths:
        if flat.method != "reversible":
            continue
        ends = f"from {safe(flat.shallowest.model)} to {safe(flat.deepest.model)}"
        sentence = (f"{flat.family}'s saved activations **{_about_change(flat)}** {ends} with reversible "
                    f"blocks ({size(flat.shallowest.saved_bytes)} to {size(flat.deepest.saved_bytes)} per batch)")
        plain = next((one for one in growths if one.family == flat.family and one.method == "plain"), None)
        if plain:
            sentence += (f", while the plain network's **{_about_change(plain)}** from "
                         f"{safe(plain.shallowest.model)} to {safe(plain.deepest.model)} "
                         f"({size(plain.shallowest.saved_bytes)} to {size(plain.deepest.saved_bytes)})")
        sentences.append(sentence + ".")
    told = {(one.family, method) for one in growths if one.method == "reversible"
            for method in ("reversible", "plain")}
    sentences += [f"{one.family}'s saved activations {_about_change(one)} with {method_label(one.method, one.blocks)} "
                  f"training, from {safe(one.shallowest.model)} to {safe(one.deepest.model)}."
                  for one in growths if (one.family, one.method) not in told]
    return " ".join(sentences)


def _about_change(growth: Growth) -> str:
    if growth.spread <= FLAT:
        return f"stay within {growth.spread:.1%}"
    if growth.fold > 1:
        return f"grow {growth.fold:.1f}-fold" if growth.fold >= 1.5 else f"grow by {growth.fold - 1:.0%}"
    return f"vary by {growth.spread:.0%}"


def about_step(cell: MemoryCell, held_bytes: dict[str, float]) -> str:
    """What the peak of a step consists of."""
    total = sum(held_bytes.values())
    most = max(held_bytes, key=lambda name: held_bytes[name])
    return (f"{safe(cell_label(cell))}: the step's tensors **peak at {size(total)}**, {held_bytes[most] / total:.0%} "
            f"of it {most}.")


def about_difference(first: str, second: str, a: dict[str, float], b: dict[str, float]) -> str:
    """From the first to the second: the whole, and the category that changed most."""
    change = sum(b.values()) - sum(a.values())
    changed = {name: b.get(name, 0.0) - a.get(name, 0.0) for name in a}
    most = max(changed, key=lambda name: abs(changed[name]))
    if change == 0:
        return f"Both peaks are {size(sum(a.values()))}."
    more = "more" if change > 0 else "less"
    return (f"At its peak **{safe(second)} holds {size(abs(change))} {more}** than {safe(first)} "
            f"({sum(b.values()) / sum(a.values()):.2f} times); {most} change most, by "
            f"{'+' if changed[most] > 0 else '-'}{size(abs(changed[most]))}.")


def about_front(cells: Sequence[MemoryCell], front: Sequence[MemoryCell]) -> str:
    timed = [cell for cell in cells if cell.batch]
    names = [f"{safe(cell_label(cell, with_model=False))} ({seconds(cell.batch.value)}, {size(cell.peak.value)})"
             for cell in front if cell.batch]
    off = [cell for cell in timed if cell not in front]
    shown = [safe(cell_label(cell, with_model=False)) for cell in off if is_shown_slower(cell, front)]
    by_means = [safe(cell_label(cell, with_model=False)) for cell in off if not is_shown_slower(cell, front)]
    sentence = f"**On the front** of {safe(timed[0].model)}: {', '.join(names)}."
    if all(len(cell.runs) == 1 for cell in timed):
        sentence += f" Off it: {', '.join(by_means)}." if by_means else ""
        sentence += " One run each: repeat them to tell their times apart."
        by_means = []
    if shown:
        sentence += f" Off it, because another is faster and no larger: {', '.join(shown)}."
    if by_means:
        sentence += (f" Off it by the means only, with no difference in time shown: {', '.join(by_means)}; repeat the "
                     "runs to tell.")
    if noisy := sum(cell.noisy_runs for cell in timed):
        sentence += f" {noisy} of {sum(len(cell.runs) for cell in timed)} runs were noisy."
    return sentence


def about_errors(frame: pd.DataFrame) -> str:
    worst = frame.loc[frame["error_percent"].abs().idxmax()]
    within = int((frame["error_percent"].abs() <= WITHIN_PERCENT).sum())
    return (f"**{within} of {len(frame)} predictions are within {WITHIN_PERCENT:g} %** of the allocator's peak; the "
            f"largest error is {percent_text(worst['error_percent'])} ({safe(worst['cell'])}).")


def percent_text(percent: float) -> str:
    """With its sign, unless it rounds to nothing."""
    return f"{percent:+.2f} %" if f"{abs(percent):.2f}" != "0.00" else "0.00 %"
