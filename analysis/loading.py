"""Loader variants side by side: rates against a baseline, what limits each of them, and where concurrency pays.

Everything is per cell over its runs. A rate is items per second; a ratio is of rates, so more than 1 is faster.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import median
from typing import Any, Literal, NamedTuple

from analysis.comparison import Estimate, Ratio, compare, estimate
from analysis.loading_bound import Signature, detect

MOST = 0.5
"""Who takes more than this share of the time is the limit."""

Limit = Literal["loading-bound", "compute-bound", "undecided"]


class LoadingRun(NamedTuple):
    """One ok run of the experiment `loading`. Waits and pauses are those of its first epoch, in order."""

    run_id: str
    cell: str
    params: Mapping[str, Any]
    items: float
    end_to_end_s: float
    steady_items_per_s: float | None
    first_batch_s: float | None
    workers: int
    waits_s: Sequence[float]
    pauses_s: Sequence[float]
    """Of the consumer; empty without one."""
    noisy: bool | None
    environment: str = ""
    """Runs of different environments are not compared."""

    @property
    def items_per_s(self) -> float:
        """Over the whole measured window, start-up included."""
        return self.items / self.end_to_end_s

    @property
    def waiting_share(self) -> float | None:
        """Of the time after batch 0 that was spent in waiting; None with one batch."""
        waited, paused = sum(self.waits_s[1:]), sum(self.pauses_s[1:])
        return waited / (waited + paused) if waited + paused > 0 else None


class Verdict(NamedTuple):
    """What limits a cell, with the evidence of its runs."""

    limit: Limit
    text: str


class Variant(NamedTuple):
    """A cell over its runs. Figures that no run has are None."""

    cell: str
    params: Mapping[str, Any]
    rate: Estimate
    ratio: Ratio | None
    """To the baseline; None for the baseline itself."""
    wait_s: float | None
    """Median over runs of the median wait after batch 0."""
    first_batch_s: float | None
    verdict: Verdict
    runs: int
    noisy_runs: int
    run_ids: tuple[str, ...] = ()


class Payoff(NamedTuple):
    """Concurrent fetch against one item after another, everything else equal."""

    others: Mapping[str, Any]
    """What the two share, the latency left out."""
    latency_s: float
    threads: int
    ratio: Ratio
    run_ids: tuple[str, ...] = ()
    """Of both."""


Rate = Callable[[LoadingRun], float | None]


def whole_rate(run: LoadingRun) -> float | None:
    return run.items_per_s


def steady_rate(run: LoadingRun) -> float | None:
    return run.steady_items_per_s


def compare_variants(runs: Iterable[LoadingRun], baseline: str, rate: Rate = whole_rate) -> list[Variant]:
    """Every cell against the baseline of the same sweep, in the order of the runs. Runs without a rate are left out."""
    cells = _by_cell(runs, rate)
    against = _rates(cells.get(baseline, []), rate)
    return [Variant(cell, members[0].params, estimate(_rates(members, rate)),
                    compare(_rates(members, rate), against) if against and cell != baseline else None,
                    _median([median(run.waits_s[1:]) for run in members if len(run.waits_s) > 1]),
                    _median([run.first_batch_s for run in members if run.first_batch_s is not None]),
                    judge(members), len(members), sum(bool(run.noisy) for run in members),
                    tuple(run.run_id for run in members))
            for cell, members in cells.items()]


def judge(runs: Sequence[LoadingRun]) -> Verdict:
    """What limits a cell: the pattern of its waits first, then who takes most of the time."""
    found = [detect(run.waits_s, run.workers) for run in runs]
    shares = [run.waiting_share for run in runs if run.waiting_share is not None]
    share = median(shares) if shares else None
    said = f"; waiting takes {share:.0%} of the time after the first batch" if share is not None else ""
    counts = Counter(signature.verdict for signature in found)
    if counts["loading-bound"] * 2 > len(found):
        return Verdict("loading-bound", _evidence(found, "loading-bound") + said)
    if share is not None and share > MOST:
        why = "the waits show no period, but " if counts["not loading-bound"] * 2 > len(found) else ""
        alone = "" if any(run.pauses_s for run in runs) else ", because there is no consumer"
        return Verdict("loading-bound", why + said.removeprefix("; ") + alone)
    if share is not None and counts["not loading-bound"] * 2 > len(found):
        return Verdict("compute-bound", _evidence(found, "not loading-bound") + said)
    if share is not None and found and found[0].workers == 0:
        return Verdict("compute-bound", f"without workers loading and consuming take turns{said}")
    return Verdict("undecided", found[0].text if found else "no run")


def _evidence(found: Sequence[Signature], verdict: str) -> str:
    """The run in the middle speaks for those that agree."""
    agreeing = sorted((one for one in found if one.verdict == verdict), key=lambda one: one.spike_s or 0.0)
    return f"{agreeing[len(agreeing) // 2].text} (so in {len(agreeing)} of {len(found)} runs)"


def concurrency_payoffs(runs: Iterable[LoadingRun], rate: Rate = whole_rate) -> list[Payoff]:
    """Each cell with concurrent fetch against its serial twin: by what they share, then by latency and threads."""
    by_setting: dict[tuple[str, float], dict[int, list[LoadingRun]]] = {}
    shared: dict[str, Mapping[str, Any]] = {}
    for run in runs:
        others = {name: value for name, value in run.params.items() if name not in ("latency_s", "fetch_threads")}
        key = repr(sorted(others.items()))
        shared[key] = others
        twins = by_setting.setdefault((key, latency_of(run.params)), {})
        if rate(run) is not None:
            twins.setdefault(threads_of(run.params), []).append(run)
    return [Payoff(shared[key], latency_s, threads, compare(_rates(twins[threads], rate), _rates(twins[1], rate)),
                   tuple(run.run_id for run in (*twins[1], *twins[threads])))
            for (key, latency_s), twins in sorted(by_setting.items(), key=lambda entry: entry[0])
            for threads in sorted(twins) if threads > 1 and 1 in twins]


def latency_of(params: Mapping[str, Any]) -> float:
    return float(params.get("latency_s") or 0.0)


def threads_of(params: Mapping[str, Any]) -> int:
    return int(params.get("fetch_threads") or 1)


def pays_from(payoffs: Iterable[Payoff]) -> Payoff | None:
    """Of one line (all else equal), the lowest latency from which on concurrency is faster at every higher one too."""
    found = None
    for payoff in sorted(payoffs, key=lambda one: one.latency_s, reverse=True):
        if payoff.ratio.verdict != "higher":
            break
        found = payoff
    return found


def _by_cell(runs: Iterable[LoadingRun], rate: Rate) -> dict[str, list[LoadingRun]]:
    cells: dict[str, list[LoadingRun]] = {}
    for run in runs:
        if rate(run) is not None:
            cells.setdefault(run.cell, []).append(run)
    return cells


def _rates(runs: Iterable[LoadingRun], rate: Rate) -> list[float]:
    return [value for run in runs if (value := rate(run)) is not None]


def _median(values: Sequence[float]) -> float | None:
    return median(values) if values else None
