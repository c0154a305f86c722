"""A search from its first round to its ranking: plan a round, execute it, let the better half stay.

The strategies differ only in the rounds and in the plans that they ask for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from engine.search_checkpoint import Checkpoint
from engine.search_costs import peak_bytes_of
from engine.search_executor import Counts, Executor, Scored, Timer
from engine.search_plan import (
    SCORE_EVERY,
    Plan,
    Price,
    Round,
    Strategy,
    better_half,
    lower_bound,
    plan_round,
    plan_rounds,
    price,
)
from engine.search_steps import Kind
from engine.search_tree import BlockCost, Snapshot


class Ranked(NamedTuple):
    model: str
    score: float
    top1: float
    round: int
    """The last round it was in, counted from 1."""
    items: int
    """What its score is from."""


@dataclass
class RoundDone:
    """A round with what was predicted for it."""

    round: Round
    bound_block_items: int
    plan: Plan | None = None
    """None when an earlier attempt had all scores; so is its price."""
    price: Price | None = None


@dataclass
class Found:
    ranking: list[Ranked] = field(default_factory=list)
    rounds: list[RoundDone] = field(default_factory=list)
    predicted: Counts = field(default_factory=Counts)
    resumed_models: int = 0
    """Scores that an earlier attempt had finished."""
    resumed_items: int = 0
    """Items of which an earlier attempt had kept the features of all models that were left."""


class Budget(NamedTuple):
    bytes: int
    batch_items: int


def search(snapshots: Sequence[Snapshot], executor: Executor, costs: Mapping[str, BlockCost], item_bytes: int,
           items: int, strategy: Strategy, budget: Budget, clock: Timer,
           checkpoint: Checkpoint | None = None, planned: Callable[[RoundDone], None] = lambda done: None) -> Found:
    """Best first. Models that left earlier rank behind those that stayed, by the score of their last round. `planned`
    is told each round with its plan and price before it is executed."""
    found, ranks = Found(), {}
    rounds = plan_rounds(len(snapshots), items, strategy)
    shares = _Shares(items, sum(r.models * (r.until - r.since) for r in rounds))
    left = {snapshot.name: snapshot for snapshot in snapshots}
    for number, this in enumerate(rounds, 1):
        scores, missing = _already(left.values(), this.until, checkpoint, goes_on=number < len(rounds))
        found.resumed_models += len(scores)
        done = RoundDone(this, lower_bound(list(left.values()), this.until - this.since))
        if missing:
            since = this.since
            if checkpoint and not executor.features:
                since = found.resumed_items = _take_up(left.values(), missing, this.until, executor, checkpoint)
            with clock.phase("plan"):
                done.plan = plan_round(missing, range(since, this.until), strategy, costs, item_bytes, budget.bytes,
                                       budget.batch_items, None if len(rounds) > 1 else SCORE_EVERY)
                done.price = price(done.plan)
            planned(done)
            found.predicted = _add(found.predicted, done.plan)
            # Model by model to the last item, scores are all there is to resume from.
            keep = _keep(left, items, executor, checkpoint if strategy != "exhaustive" else None)
            scores |= executor.execute(done.plan, clock, shares.take, keep, _remember(left, this.until, checkpoint))
        found.rounds.append(done)
        ranks.update({name: Ranked(name, *scored, number, this.until) for name, scored in scores.items()})
        stay = better_half({name: scored.score for name, scored in scores.items()})
        left = {name: left[name] for name in stay}
    found.ranking = sorted(ranks.values(), key=lambda ranked: (-ranked.round, -ranked.score, ranked.model))
    return found


def _already(snapshots: Iterable[Snapshot], until: int, checkpoint: Checkpoint | None,
             goes_on: bool) -> tuple[dict[str, Scored], list[Snapshot]]:
    """Scores that an earlier attempt finished, and the models that have none. Who may go on needs its features, too."""
    known: dict[str, Scored] = {}
    missing = []
    for snapshot in snapshots:
        if (checkpoint and (scored := checkpoint.find(snapshot.blocks, until))
                and (not goes_on or checkpoint.kept_items(snapshot.blocks) >= until)):
            known[snapshot.name] = scored
        else:
            missing.append(snapshot)
    return known, missing


def _take_up(left: Iterable[Snapshot], missing: Iterable[Snapshot], until: int, executor: Executor,
             checkpoint: Checkpoint) -> int:
    """Give the executor what an earlier attempt kept; returns the item from which on those that are missing go on."""
    for snapshot in left:
        for items, features in checkpoint.features(snapshot.blocks):
            executor.collect(snapshot.name, features, items)
    # At least one item is left to run: the score comes behind a chunk.
    return min(until - 1, *(checkpoint.kept_items(snapshot.blocks) for snapshot in missing))


def _keep(left: Mapping[str, Snapshot], items: int, executor: Executor,
          checkpoint: Checkpoint | None) -> Callable[[list[str], range], None]:
    def keep(names: list[str], chunk: range) -> None:
        # Behind the last chunk of all comes the score, and nobody needs the features any more.
        if checkpoint and chunk.stop < items:
            for name in names:
                checkpoint.keep(left[name].blocks, chunk, executor.features[name][chunk.start : chunk.stop])

    return keep


def _remember(left: Mapping[str, Snapshot], until: int,
              checkpoint: Checkpoint | None) -> Callable[[dict[str, Scored]], None]:
    def remember(scored: dict[str, Scored]) -> None:
        if checkpoint:
            for name, score in scored.items():
                checkpoint.add(left[name].blocks, until, score)

    return remember


def _add(counts: Counts, plan: Plan) -> Counts:
    return Counts(counts.block_items + plan.block_items, counts.repeated_block_items + plan.repeated_block_items,
                  counts.loads + plan.loads)


class _Shares:
    """Spreads the items of a search over its batches: an item counts once when all models that had to see it have."""

    def __init__(self, items: int, pairs: int) -> None:
        self._items, self._pairs, self._done, self._given = items, pairs, 0, 0

    def take(self, pairs: int) -> int:
        self._done += pairs
        due = min(self._items * self._done // self._pairs, self._items) - self._given
        self._given += due
        return due


PROFILED_RUNS = 300
"""Blocks that a profile goes through: a trace of a large store's whole chunk could not be opened."""


def run_some_blocks(plan: Plan, executor: Executor) -> None:
    """The first blocks of the plan on its first chunk, untimed, without loading and scoring."""
    first = plan.passes[0]
    executor.execute_untimed(plan, first_runs(first.in_chunk(0), PROFILED_RUNS), first.chunks[0])


def first_runs(steps: Iterable[tuple[int, int, int]], most: int) -> Iterator[tuple[int, int, int]]:
    """Steps up to so many block runs, then the release of what they leave alive."""
    alive: set[int] = set()
    runs = 0
    for step in steps:
        kind, at, _ = step
        if kind in (Kind.RUN, Kind.RERUN):
            if runs == most:
                break
            runs += 1
        if kind in (Kind.TAKE, Kind.RUN, Kind.RERUN):
            alive.add(at)
        elif kind == Kind.RELEASE:
            alive.discard(at)
        yield step
    yield from ((int(Kind.RELEASE), node, -1) for node in alive)


def measure_peak(plan: Plan, executor: Executor, device: str) -> int:
    """What the allocator gave out for activations in the plan's hungriest pass on its longest chunk, gone through once
    more untimed."""
    hungriest = plan.hungriest_pass()
    longest = max(range(len(hungriest.chunks)), key=lambda number: len(hungriest.chunks[number]))
    return peak_bytes_of(
        lambda: executor.execute_untimed(plan, hungriest.in_chunk(longest), hungriest.chunks[longest]), device)
