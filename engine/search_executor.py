"""Executes plans: step by step, with no knowledge of trees or strategies. Fetches weights ahead while it computes.

It counts what it does, so that the planner's prediction can be checked against it. torch is loaded when called.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, NamedTuple, Protocol

from engine.scoring import Scorer, score_heads
from engine.search_plan import Plan
from engine.search_steps import Kind
from engine.search_tree import ITEMS, PrefixTree
from engine.snapshots import SnapshotStore

if TYPE_CHECKING:
    import torch

AHEAD = 6
"""Blocks that are read before they are asked for. Their weights are in memory beside those in use."""


class Timer(Protocol):
    """What the executor needs of engine.clock.Clock."""

    def phase(self, name: str, on_device: bool = False) -> AbstractContextManager[None]: ...
    def end_batch(self, items: int) -> None: ...


class Counts(NamedTuple):
    """What was really done."""

    block_items: int = 0
    repeated_block_items: int = 0
    loads: int = 0


class Scored(NamedTuple):
    score: float
    top1: float


class Prefetcher:
    """Weights in the order of the plan, read by a thread of its own."""

    def __init__(self, store: SnapshotStore, plan: Plan, device: str, pool: ThreadPoolExecutor) -> None:
        self._store, self._tree, self._device, self._pool = store, plan.tree, device, pool
        self._order: Iterator[int] = plan.load_order()
        self._coming: deque[Future[dict[str, torch.Tensor]]] = deque()
        for _ in range(AHEAD):
            self._ask()

    def _ask(self) -> None:
        block = next(self._order, None)
        if block is not None:
            self._coming.append(self._pool.submit(self._store.load, self._tree.blocks[block]))

    def take(self) -> dict[str, torch.Tensor]:
        """The next block of the order; waits only if reading is slower than computing."""
        found = self._coming.popleft().result()
        self._ask()
        if self._device == "cpu":
            return found
        return {name: tensor.to(self._device, non_blocking=True) for name, tensor in found.items()}


class Executor:
    """Holds what outlives a plan: the items, the features so far, and the counts."""

    def __init__(self, store: SnapshotStore, modules: Mapping[str, torch.nn.Module], kinds: Mapping[str, str],
                 items: torch.Tensor, labels: torch.Tensor, classes: int, scorer: Scorer, device: str) -> None:
        self._store, self._kinds, self._items, self._device = store, kinds, items, device
        self._labels, self._classes, self._scorer = labels.to(device), classes, scorer
        self._modules = modules
        # The tensors inside each module that a block's weights take the place of.
        self._places = {kind: list(module.state_dict(keep_vars=True).items()) for kind, module in modules.items()}
        self.features: dict[str, torch.Tensor] = {}
        self.counts = Counts()

    def execute(self, plan: Plan, clock: Timer, share: Callable[[int], int],
                collected: Callable[[list[str], range], None],
                finished: Callable[[dict[str, Scored]], None]) -> dict[str, Scored]:
        """All steps of all passes. `share` turns finished model-item pairs into items of a batch; `collected` is told
        which models have their features of a chunk, before their score; `finished` every score as soon as it is
        known."""
        found: dict[str, Scored] = {}
        with ThreadPoolExecutor(1, "weights") as pool:
            weights = Prefetcher(self._store, plan, self._device, pool)
            for pass_ in plan.passes:
                held: dict[int, dict[str, torch.Tensor]] = {}
                for number, items in enumerate(pass_.chunks):
                    found |= self._go(plan.tree, pass_.in_chunk(number), items, weights, held, clock, share, collected,
                                      finished)
                assert not held, "a pass drops what it loads"
        return found

    def execute_untimed(self, plan: Plan, steps: Iterator[tuple[int, int, int]], items: range) -> None:
        """One chunk without loading, collecting or scoring: for looking at the memory of activations alone."""
        only = (step for step in steps if step[0] in (Kind.TAKE, Kind.RUN, Kind.RERUN, Kind.KEEP, Kind.RELEASE))
        before, self.counts = self.counts, Counts()
        self._go(plan.tree, only, items, None, {}, Untimed(), lambda pairs: 0, lambda names, chunk: None,
                 lambda scored: None)
        self.counts = before

    def _go(self, tree: PrefixTree, steps: Iterator[tuple[int, int, int]], items: range, weights: Prefetcher | None,
            held: dict[int, dict[str, torch.Tensor]], clock: Timer, share: Callable[[int], int],
            collected: Callable[[list[str], range], None],
            finished: Callable[[dict[str, Scored]], None]) -> dict[str, Scored]:
        live: dict[int, torch.Tensor] = {}
        waiting: list[str] = []
        found: dict[str, Scored] = {}
        pairs = 0
        runs = repeats = loads = 0
        load, copy = clock.phase("load_state"), clock.phase("data_to_device", on_device=True)
        infer, score = clock.phase("inference", on_device=True), clock.phase("score", on_device=True)
        block_of, hashes = tree.block.tolist(), tree.blocks
        for kind, at, other in steps:
            if pairs and kind not in (Kind.COLLECT, Kind.RELEASE, Kind.SCORE, Kind.DROP):
                clock.end_batch(share(pairs))
                pairs = 0
            if kind in (Kind.RUN, Kind.RERUN):
                number = block_of[at]
                code = self._kinds[hashes[number]]
                with infer:
                    if weights is not None:
                        self._put_in(code, held[number])
                    live[at] = self._modules[code](live[other])
                runs += 1
                repeats += kind == Kind.RERUN
            elif kind == Kind.LOAD:
                assert weights is not None
                with load:
                    held[at] = weights.take()
                loads += 1
            elif kind == Kind.DROP:
                del held[at]
            elif kind == Kind.RELEASE:
                del live[at]
            elif kind == Kind.TAKE:
                with copy:
                    live[ITEMS] = self._items[items.start : items.stop].to(self._device)
            elif kind == Kind.COLLECT:
                with score:
                    self.collect(tree.names[other], live[at], items)
                waiting.append(tree.names[other])
                pairs += len(items)
            elif kind == Kind.SCORE:
                with score:
                    collected(waiting, items)
                    scored = self._score(waiting, items.stop)
                finished(scored)
                found |= scored
                waiting = []
        if waiting:
            with score:
                collected(waiting, items)
        if pairs:
            clock.end_batch(share(pairs))
        assert not live, "a chunk releases what it made"
        self.counts = Counts(self.counts.block_items + runs * len(items),
                             self.counts.repeated_block_items + repeats * len(items), self.counts.loads + loads)
        return found

    def _put_in(self, code: str, tensors: dict[str, torch.Tensor]) -> None:
        for name, place in self._places[code]:
            place.data = tensors[name]

    def collect(self, name: str, activation: torch.Tensor, items: range) -> None:
        """A model's features of these items, put aside for scoring."""
        flat = activation.flatten(1).to(self._device)
        if name not in self.features:
            self.features[name] = flat.new_empty((len(self._items), flat.shape[1]))
        self.features[name][items.start : items.stop] = flat

    def _score(self, names: list[str], until: int) -> dict[str, Scored]:
        """Models whose features have the same width are scored together."""
        import torch

        widths: dict[int, list[str]] = {}
        for name in names:
            widths.setdefault(self.features[name].shape[1], []).append(name)
        found: dict[str, Scored] = {}
        for alike in widths.values():
            stacked = torch.stack([self.features[name][:until] for name in alike])
            result = score_heads(stacked, self._labels[:until], self._classes, self._scorer)
            found |= {name: Scored(*pair) for name, *pair in zip(alike, result.score, result.top1, strict=True)}
        return found


class Untimed:
    """A timer for work whose time is not asked for."""

    def phase(self, name: str, on_device: bool = False) -> AbstractContextManager[None]:
        return nullcontext()

    def end_batch(self, items: int) -> None:
        pass
