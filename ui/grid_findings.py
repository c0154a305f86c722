"""The sentences of the Batch & workers page, computed from the numbers that its charts show."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from analysis.comparison import Estimate
from analysis.grid_view import CellTime, GridView
from analysis.grids import Pair
from analysis.limits import Limit, next_step
from analysis.recommendation import Against
from analysis.regret import best_by_objective
from ui.findings import about_few_runs
from ui.frame import safe
from ui.units import TOO_FAR, USELESS, seconds

NAMED = 4
"""So many pairs are named in a sentence; the rest is counted."""


def about_recommendation(view: GridView) -> str:
    """Which pair, how good, how sure, and what cannot be told apart from it."""
    found = view.recommendation
    if found is None:
        return ("**No pair can be recommended:** none has a time for every model. Missing cells are listed below; "
                "choose fewer models to compare those that are there.")
    best, pair = found.best, found.best.pair
    slower = [other for other in found.others if other.slower]
    # Where nothing is shown to be slower by runs enough, being first is all that can be said.
    ahead = "is" if any(not other.ratio.caution for other in slower) or not found.others else "comes out"
    if len(view.models) == 1:
        whole = (f"**{pair}** {ahead} fastest for {safe(view.models[0])}: median {_time(best.total_s, view.per_item)}"
                 f"{_range(found.time, view.per_item)}.")
    else:
        whole = (f"**{pair}** {ahead} best for all {len(view.models)} models: mean regret {best.mean_regret:.1%}, "
                 f"worst {best.worst_regret:.1%} ({safe(best.worst_model)}), {_interval(found.time, view.per_item)} as "
                 "geometric mean over models.")
    if not found.others:
        return whole + " It is the only pair."
    sentences = [whole]
    if found.tied:
        sentences.append(f"{_names(found.tied)} cannot be told apart from it.")
    if found.quicker:
        less, more = ("over models", "mean regret") if len(view.models) > 1 else ("over runs", "median")
        have = "has" if len(found.quicker) == 1 else "have"
        sentences.append(f"{_names(found.quicker)} {have} a lower geometric mean {less} but a higher {more}.")
    if found.untold:
        sentences.append(f"{_names(found.untold)}: too few runs to tell; measure each cell at least three times.")
    if slower:
        nearest = min(slower, key=lambda other: other.ratio.value)
        low, high = nearest.ratio.low, nearest.ratio.high
        assert low is not None and high is not None
        sentences.append(f"{'All' if len(slower) == len(found.others) else 'The'} {len(slower)} "
                         f"{'other is' if len(slower) == 1 else 'others are'} slower, the nearest ({nearest.pair}) "
                         f"{nearest.ratio.value:.2f} times ({low:.2f} to {high:.2f})."
                         + about_few_runs(other.ratio for other in slower))
    return " ".join(sentences)


def about_level(view: GridView) -> str:
    """How the comparisons were made, said wherever they are used."""
    found = view.recommendation
    if found is None or not found.others:
        return ""
    count, pair = len(found.others), found.best.pair
    return (f"The best pair is compared with {count} {'other' if count == 1 else 'others'}, each at "
            f"{_level(found.level)} so that all together hold at 95 % (Bonferroni); ratios of geometric means over "
            f"runs and models, Welch's t on logarithms, and so are the intervals. {pair} means batch size "
            f"{pair.batch_size} with {pair.workers} {'worker' if pair.workers == 1 else 'workers'}.")


def about_objectives(view: GridView) -> str:
    best = best_by_objective(view.ranked)
    if not best:
        return "No pair has a time for every model, so there is no regret to rank by."
    mean, worst, total = (best[name] for name in ("mean_regret", "worst_regret", "total_s"))
    if mean.pair == worst.pair == total.pair:
        ties = view.recommendation.tied if view.recommendation else []
        return (f"**{mean.pair}** comes out best under all three objectives"
                + (f"; {len(ties)} other {'pair' if len(ties) == 1 else 'pairs'} cannot be told apart from it."
                   if ties else "."))
    return (f"Least mean regret: **{mean.pair}** ({mean.mean_regret:.1%}). Least worst case: **{worst.pair}** "
            f"({worst.worst_regret:.1%}). Least total time: **{total.pair}** ({_time(total.total_s, view.per_item)}).")


def about_limits(view: GridView) -> str:
    """What limits the recommended pair, and the next thing to try."""
    if view.recommendation is None or not view.limits:
        return ""
    pair = view.recommendation.best.pair
    kinds = Counter(limit.kind for limit in view.limits.values())
    kind = kinds.most_common(1)[0][0]
    model = next(model for model, limit in view.limits.items() if limit.kind == kind)
    if kind == "unknown":
        return f"What limits {pair} is not known: its runs have no phases."
    if len(view.limits) <= NAMED:
        each = ", ".join(f"for {safe(model)} by **{limit.kind}** ({_share(limit)})"
                         for model, limit in view.limits.items())
    else:
        each = ", ".join(f"by **{kind}** for {count} of {len(view.limits)} models"
                         for kind, count in kinds.most_common())
        each += f" ({safe(model)}: {_share(view.limits[model])})"
    return f"{pair} is limited {each}. Next: {safe(next_step(view.limits[model], view.grid, model, pair))}."


def about_family(cells: Sequence[CellTime], along: str, per_item: bool, missing: int = 0) -> str:
    """For how many models which value is fastest; with one model, its fastest cell. `missing` cells have no bar."""
    if not cells:
        return ""
    gaps = f" {missing} more {'cell has' if missing == 1 else 'cells have'} no time." if missing else ""
    models = list(dict.fromkeys(cell.model for cell in cells))
    fastest = {model: min((c for c in cells if c.model == model), key=lambda c: c.median_s) for model in models}
    if len(models) == 1:
        cell = fastest[models[0]]
        workers = f"{cell.pair.workers} {'worker' if cell.pair.workers == 1 else 'workers'}"
        return (f"{safe(cell.model)} comes out fastest with batch size {cell.pair.batch_size} and {workers}: median "
                f"{_time(cell.median_s, per_item)}{_range(cell.interval, per_item)}."
                + _doubts(cell, [other for other in cells if other is not cell]) + gaps)
    counts = Counter(getattr(cell.pair, along) for cell in fastest.values())
    value, count = counts.most_common(1)[0]
    word = {"workers": "workers", "batch_size": "batch size"}[along]
    return (f"Fastest {word} by the median over runs: **{value}**, for {count} of {len(models)} models."
            + _noise(cells) + gaps)


def _doubts(best: CellTime, others: Sequence[CellTime]) -> str:
    """What keeps the first place from being sure; it goes with the chart to boards and slides."""
    high = best.interval.high
    overlapping = sum(other.interval.low is not None and high is not None and other.interval.low < high
                      for other in others)
    return (f" Its interval overlaps those of {overlapping} of {len(others)} other cells." if overlapping else "") \
        + _noise([best, *others])


def _noise(cells: Sequence[CellTime]) -> str:
    runs, noisy = sum(cell.interval.runs for cell in cells), sum(cell.noisy_runs for cell in cells)
    return f" {noisy} of {runs} runs were noisy." if noisy else ""


def about_first(found: Mapping[Pair, Estimate], model: str) -> str:
    if not found:
        return f"No run of {safe(model)} says when its first batch was there."
    least, most = min(found, key=lambda p: found[p].value), max(found, key=lambda p: found[p].value)
    if least == most:
        return f"{safe(model)}: the first batch took {seconds(found[least].value)} at {least}."
    return (f"{safe(model)}: the first batch takes from {seconds(found[least].value)} ({least}) to "
            f"**{seconds(found[most].value)}** ({most}), {found[most].value / found[least].value:.1f} times as long. "
            "Every worker makes one whole batch before the first is there.")


def about_heat(values: Mapping[Pair, float | None], per_item: bool, regret: bool) -> str:
    known = {pair: value for pair, value in values.items() if value is not None}
    if not known:
        return "No cell has a value to show."
    best, worst = min(known, key=lambda p: known[p]), max(known, key=lambda p: known[p])
    low, high = (f"{known[pair]:.1%}" if regret else _time(known[pair], per_item) for pair in (best, worst))
    return (f"From {low} at **{best}** to {high} at {worst}"
            + (f"; {len(values) - len(known)} cells have no value (–)." if len(known) < len(values) else "."))


def _interval(time: Estimate, per_item: bool) -> str:
    return _time(time.value, per_item) + _range(time, per_item)


def _range(time: Estimate, per_item: bool) -> str:
    if time.low is None or time.high is None:
        return " (one run: no interval)"
    if time.high > time.low * USELESS:
        return f" ({time.runs} runs, {TOO_FAR})"
    return f" (95 % interval {_time(time.low, per_item)} to {_time(time.high, per_item)}, {time.runs} runs)"


def _time(value: float | None, per_item: bool) -> str:
    return seconds(value) + (" per image" if per_item else "")


def _share(limit: Limit) -> str:
    return "unknown" if limit.share is None else f"{limit.share:.0%} of its time"


def _names(others: Sequence[Against]) -> str:
    names = [str(other.pair) for other in (others if len(others) == NAMED + 1 else others[:NAMED])]
    rest = len(others) - len(names)
    if rest:
        return ", ".join(names) + f" and {rest} more"
    return names[0] if len(names) == 1 else ", ".join(names[:-1]) + " and " + names[-1]


def _level(level: float) -> str:
    return f"{level * 100:.4g} %"
