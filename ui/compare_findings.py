"""The sentences of Compare: verdicts against the baseline, and what shift the runs could have shown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from analysis.comparison import Estimate, Ratio
from analysis.over_time import Era
from analysis.side_by_side import PER_ITEM, Figure, Words, say_verdict
from analysis.sweep_match import SweepRatio
from ui.compare_names import LONGEST, Name, shorten
from ui.frame import safe
from ui.units import TOO_FAR, USELESS, amount, number

TITLES = {PER_ITEM: "time per item", "end_to_end_s": "end to end", "steady_items_per_s": "steady items per second",
          "first_batch_s": "first batch", "steady_batch_s": "steady time per batch"}
ORDER: tuple[Words, ...] = ("faster", "slower", "higher", "lower", "no difference shown", "too few runs to tell",
                            "no ratio", "not measured")
FAR_SHIFT = 100
"""Runs that could only have shown more than so many times could show nothing of use."""
NOTHING_SHOWN: tuple[Words, ...] = ("no difference shown", "too few runs to tell")
UNRATED: dict[Words, str] = {"not measured": "not measured in one of them",
                             "no ratio": "zero or less in one of them, which has no ratio"}
MORE_RUNS = ("Too few runs for an interval, or times so rounded that all are equal: repeat each at least three times, "
             "and import all digits.")


def title_of(metric: str) -> str:
    if metric not in TITLES and metric.endswith("_per_s"):
        return metric.removesuffix("_s").replace("_", " ") + " second"
    return TITLES.get(metric) or metric.removesuffix("_s").removesuffix("_bytes").replace("_", " ")


def tell_value(value: Estimate | None, unit: str | None) -> str:
    if value is None:
        return "–"
    if value.low is None or value.high is None:
        return amount(value.value, unit)
    if value.low > 0 and value.high > value.low * USELESS:
        return f"{amount(value.value, unit)}, {value.runs} runs {TOO_FAR}"
    if unit not in ("s", "bytes"):
        return f"{number(value.value)} [{number(value.low)}, {number(value.high)}] {unit or ''}".strip()
    return f"{amount(value.value, unit)} [{amount(value.low, unit)}, {amount(value.high, unit)}]"


def tell_ratio(ratio: Ratio | None) -> str:
    return "–" if ratio is None else f"{_times(ratio.value)}"


def tell_interval(ratio: Ratio | None) -> str:
    if ratio is None or ratio.low is None or ratio.high is None:
        return "–"
    if ratio.low <= 0 or ratio.high > ratio.low * USELESS:
        return TOO_FAR
    return f"[{_times(ratio.low)}, {_times(ratio.high)}]"


def tell_shift(shift: float | None) -> str:
    """What could have been shown, as a change of the figure."""
    if shift is None:
        return "–"
    if shift >= FAR_SHIFT:
        return f"only > {FAR_SHIFT} times"
    return f"≥ {(shift - 1) * 100:.2g} %" if shift < 2 else f"≥ {_times(shift)} times"


def _times(value: float) -> str:
    return f"{value:.2f}" if 0.1 <= value < 100 else f"{value:.3g}"


def about_figures(figures: Sequence[Figure], names: Sequence[Name], baseline: int) -> str:
    """One metric of every group against the baseline's. The verdict comes first: a slide's headline is what begins."""
    others = [figure for figure in figures if figure.words]
    if not others:
        return "One group of runs: a second one makes a comparison."
    metric = figures[0].metric
    base = figures[baseline].value
    value = safe(tell_value(base, figures[0].unit))
    letter = names[baseline].letter
    told = f"Baseline **{letter}**, {safe(title_of(metric))}: {value}."
    if len(others) <= 3:
        return " ".join([*(_about_one(figure, names, letter) for figure in others), told])
    words = Counter(figure.words for figure in others)
    counts = ", ".join(f"{words[word]} {word}" for word in ORDER if words[word])
    shown = [figure for figure in others if figure.ratio and figure.words not in NOTHING_SHOWN]
    ends = sorted(shown, key=lambda figure: figure.ratio.value if figure.ratio else 1.0)
    named = [_about_one(figure, names, letter) for figure in dict.fromkeys([*ends[:1], *ends[-1:]])]
    return " ".join([f"Of {len(others)} others, against **{letter}**: **{counts}**.", *named, told])


def _about_one(figure: Figure, names: Sequence[Name], baseline: str) -> str:
    name = f"**{names[figure.group].letter}** ({safe(shorten(names[figure.group].label, LONGEST))})"
    if figure.ratio is None:
        why = "a value of zero or less has no ratio" if figure.words == "no ratio" else "it was not measured"
        return f"**No comparison** with {name}: {why}."
    ratio = f"{tell_ratio(figure.ratio)} times **{baseline}**"
    if figure.ratio.low is not None:
        ratio += f", 95 % interval {safe(tell_interval(figure.ratio))}"
    if figure.words in NOTHING_SHOWN:
        return f"**{figure.words.capitalize()}** for {name}: {ratio}."
    return f"{name} is **{figure.words}**: {ratio}."


def about_shift(figures: Sequence[Figure], names: Sequence[Name]) -> str:
    """What these repeats could have shown."""
    known = sorted((figure.shift, names[figure.group].letter) for figure in figures if figure.shift is not None)
    if not known:
        return MORE_RUNS if any(figure.words == "too few runs to tell" for figure in figures) else ""
    (least, where), (most, last) = known[0], known[-1]
    if least >= FAR_SHIFT:
        return (f"These runs differ so much among themselves that even a shift of {FAR_SHIFT} times would have been "
                "missed in more than 1 of 5 such comparisons: repeat each at least three times on a quiet machine.")
    said = f"**{safe(tell_shift(least))}**" if tell_shift(least) == tell_shift(most) else \
        f"**{safe(tell_shift(least))}** ({where}) to **{safe(tell_shift(most))}** ({last})"
    missing = any(figure.words == "too few runs to tell" for figure in figures)
    return (f"With these repeats and their spread, a shift of {said} would have been shown in 4 of 5 such comparisons; "
            "a smaller one may hide behind “no difference shown”." + (f" {MORE_RUNS}" if missing else ""))


def about_chance(count: int) -> str:
    """Many verdicts at once: some are wrong by chance."""
    if count < 10:
        return "Each verdict stands at the 5 % level by itself."
    return (f"{count} verdicts, each at the 5 % level by itself: if nothing differed at all, about {count * 0.05:.0f} "
            "of them would still say that something does.")


def about_sweeps(found: SweepRatio, name: str, base: str, metric: str) -> str:
    """One sweep against the baseline, over their matched cells."""
    if found.experiments:
        mine, theirs = map(safe, found.experiments)
        return (f"**{safe(name)}** ({mine}) and {safe(base)} ({theirs}) answer different questions: their cells are "
                "not matched. Choose sweeps of the same experiment.")
    rated = [pair.figure for pair in found.pairs if pair.figure.ratio]
    if not rated or found.overall is None:
        return f"**{safe(name)}** and {safe(base)} have no cell in common that was measured in both."
    counts = Counter(figure.words for figure in rated)
    cells = ", ".join(f"{counts[word]} {word}" for word in ORDER if counts[word])
    ratio = found.overall
    words = say_verdict(ratio, metric, rated[0].unit)
    interval = f", 95 % interval {safe(tell_interval(ratio))}" if ratio.low is not None else \
        "; no interval, because no cell has two runs in both that are not equal"
    if found.single:
        interval += f"; {found.single} without an interval {'is' if found.single == 1 else 'are'} not in it"
    count = len(rated) - found.single
    verdict = f"**{words.capitalize()}** between **{safe(name)}** and {safe(base)}" if words in NOTHING_SHOWN else \
        f"**{safe(name)}** is **{words}** than {safe(base)}"
    return (f"{verdict}: {tell_ratio(ratio)} times, {safe(title_of(metric))} over {count} matched "
            f"{'cell' if count == 1 else 'cells'} (geometric mean{interval}). Cell by cell: {cells}."
            f"{_about_unrated(found)}")


def _about_unrated(found: SweepRatio) -> str:
    """Matched cells that have no ratio."""
    words = Counter(pair.figure.words for pair in found.pairs if not pair.figure.ratio)
    said = ""
    for word, why in UNRATED.items():
        if count := words[word]:
            said += f" {count} {'cell was' if count == 1 else 'cells were'} {why}."
    return said


def about_eras(eras: Sequence[Era], metric: str) -> str:
    runs = sum(len(era.runs) for era in eras)
    if len(eras) < 2:
        return (f"{runs} {'run' if runs == 1 else 'runs'} of this cell, all in the same environment: nothing has "
                f"changed that could have cost anything. {title_of(metric).capitalize()}: "
                f"{safe(tell_value(eras[0].figure.value, eras[0].figure.unit))}.")
    said = f"{len(eras) - 1} {'change' if len(eras) == 2 else 'changes'} of the environment over {runs} runs"
    counts = Counter(era.figure.words for era in eras[1:])
    told = ", ".join(f"{counts[word]} {word}" for word in ORDER if counts[word])
    title = safe(title_of(metric))
    shown = [place for place, era in enumerate(eras) if era.figure.words in ("slower", "faster", "higher", "lower")]
    more = "" if not counts["too few runs to tell"] else \
        " Measure the cell at least three times between two changes to tell what each did."
    if shown:
        parts = [f"**{eras[place].figure.words}** after {safe(tell_changes(eras[place], 2))} (change {place}): "
                 f"{tell_ratio(eras[place].figure.ratio)} times {safe(tell_interval(eras[place].figure.ratio))}"
                 for place in shown[:3]]
        first = "; ".join(parts)
        return f"{first[:2]}{first[2].upper()}{first[3:]}. {title.capitalize()}, {said}: {told}.{more}"
    if len(counts) > 1:
        return f"**{told}** in {title}, {said}.{more}"
    if counts["no difference shown"]:
        return f"**No difference shown** in {title} by any of {said}."
    return f"**{told.partition(' ')[2].capitalize()}** in {title}, {said}.{more}"


def tell_changes(era: Era, most: int = 4) -> str:
    parts = [f"{change.name.replace('_', ' ').removeprefix('libraries ')} {_short(change.before)} → "
             f"{_short(change.after)}" for change in era.changes[:most]]
    return ", ".join(parts) + (f" and {len(era.changes) - most} more" if len(era.changes) > most else "")


def _short(value: str) -> str:
    return value[:10] if len(value) == 40 else value if len(value) <= 32 else value[:31] + "…"
