"""Searches over random stores and budgets: same scores whatever the strategy, the work that was planned, memory within
the budget as torch's allocator saw it."""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from engine.params import InputError
from engine.scoring import score_heads
from engine.search import Budget, Found, RoundDone, measure_peak, search
from engine.search_checkpoint import Checkpoint
from engine.search_costs import measure_costs
from engine.search_executor import Executor, Scored, Untimed
from engine.search_items import draw_patterns
from engine.search_network import build_blocks, build_modules, synthetic_network
from engine.search_plan import STRATEGIES, Strategy, better_half, lower_bound, plan_rounds
from engine.search_steps import Kind
from engine.search_tree import BlockCost, Snapshot
from engine.snapshot_stores import import_model
from engine.snapshots import SnapshotStore, StoredModel
from engine.synthetic_snapshots import prepare_synthetic, synthetic_folder

NETWORK = synthetic_network(blocks=8, channels=4, image_size=6, features=5)
WIDE = Budget(2**30, 10_000)


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    """Tiny tensors: more threads than free cores only wait for each other."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


class Bench(NamedTuple):
    """A store with everything that a search over it needs."""

    store: SnapshotStore
    models: list[StoredModel]
    modules: dict[str, torch.nn.Module]
    costs: dict[str, BlockCost]
    items: int
    image_size: int

    def snapshots(self) -> list[Snapshot]:
        return [Snapshot(model.name, [block.hash for block in model.blocks]) for model in self.models]

    def executor(self, timer_items: int | None = None) -> Executor:
        pixels, labels, classes = draw_patterns(self.items, self.image_size, 1)
        kinds = {block.hash: block.kind for model in self.models for block in model.blocks}
        return Executor(self.store, self.modules, kinds, pixels, labels, classes, "ridge", "cpu")

    def search(self, strategy: Strategy, budget: Budget = WIDE, checkpoint: Checkpoint | None = None,
               timer: Untimed | None = None, planned: Callable[[RoundDone], None] = lambda done: None,
               ) -> tuple[Found, Executor]:
        executor = self.executor()
        with torch.inference_mode():
            found = search(self.snapshots(), executor, self.costs, 3 * self.image_size**2 * 4, self.items, strategy,
                           budget, timer or Untimed(), checkpoint, planned)
        return found, executor


def make_bench(store: SnapshotStore, items: int, image_size: int) -> Bench:
    models = store.models()
    modules = build_modules(models, "cpu")
    with torch.inference_mode():
        costs = measure_costs(store, models, modules, draw_patterns(1, image_size, 1).pixels, "cpu", lambda: None)
    return Bench(store, models, modules, costs, items, image_size)


def synthetic_bench(folder: Path, distribution: str, models: int, items: int, seed: int) -> Bench:
    prepare_synthetic(folder, distribution, models, NETWORK, seed, lambda done, total: None)
    return make_bench(SnapshotStore(synthetic_folder(folder, distribution, models, NETWORK, seed)), items, 6)


def by_name(found: Found) -> dict[str, float]:
    return {ranked.model: ranked.score for ranked in found.ranking}


def score_whole_models(bench: Bench, names: Sequence[str], until: int) -> dict[str, float]:
    """Each model as one network over its items, without plans: what every strategy has to agree with."""
    pixels, labels, classes = draw_patterns(bench.items, bench.image_size, 1)
    scores = {}
    for model in bench.models:
        if model.name not in names:
            continue
        values = pixels[:until]
        with torch.inference_mode():
            for block in model.blocks:
                bench.modules[block.kind].load_state_dict(bench.store.load(block.hash))
                values = bench.modules[block.kind](values)
        scores[model.name] = score_heads(values[None], labels[:until], classes, "ridge").score[0]
    return scores


@settings(deadline=None, max_examples=20, phases=[Phase.explicit, Phase.generate])
@given(distribution=st.sampled_from(["top_layers", "quarter", "half"]), models=st.integers(1, 9),
       items=st.integers(41, 90), seed=st.integers(0, 3), chunk=st.integers(1, 100), batch=st.integers(1, 100))
def test_strategies_that_see_the_same_items_agree(distribution: str, models: int, items: int, seed: int, chunk: int,
                                                  batch: int) -> None:
    """`chunk` sets the budget: from hardly one item at a time to all of them."""
    with tempfile.TemporaryDirectory() as folder:
        bench = synthetic_bench(Path(folder), distribution, models, items, seed)
        expected = score_whole_models(bench, [model.name for model in bench.models], items)
        per_item = max(2 * cost.out_bytes + cost.work_bytes for cost in bench.costs.values()) + 3 * 6 * 6 * 4
        fixed = max(cost.fixed_bytes for cost in bench.costs.values())
        budget = Budget(fixed + per_item * chunk, batch)
        for strategy in ("exhaustive", "shared_prefix"):
            found, executor = bench.search(strategy, budget)
            assert by_name(found) == pytest.approx(expected, abs=1e-5)
            assert [ranked.model for ranked in found.ranking] == sorted(
                expected, key=lambda name: (-expected[name], name))
            check_work_and_memory(bench, found, executor, budget)
        rankings = []
        for strategy in ("halving", "shared_prefix_halving"):
            found, executor = bench.search(strategy, budget)
            check_rounds(bench, found)
            check_work_and_memory(bench, found, executor, budget)
            rankings.append([ranked.model for ranked in found.ranking])
        assert rankings[0] == rankings[1]


def check_work_and_memory(bench: Bench, found: Found, executor: Executor, budget: Budget) -> None:
    assert executor.counts == found.predicted
    assert executor.counts.block_items >= sum(done.bound_block_items for done in found.rounds)
    for done in found.rounds:
        assert done.plan
        assert done.plan.peak_bytes <= budget.bytes
        with torch.inference_mode():
            assert measure_peak(done.plan, executor, "cpu") <= budget.bytes


def check_rounds(bench: Bench, found: Found) -> None:
    """The ranking is exactly that of the rounds: scored as whole models, the better half staying."""
    left = [model.name for model in bench.models]
    behind: list[str] = []
    bound = 0
    for done in plan_rounds(len(left), bench.items, "halving"):
        assert len(left) == done.models
        scores = score_whole_models(bench, left, done.until)
        bound += lower_bound([s for s in bench.snapshots() if s.name in left], done.until - done.since)
        stay = better_half(scores)
        behind = sorted(set(left) - set(stay), key=lambda name: -scores[name]) + behind
        left = stay
    assert [ranked.model for ranked in found.ranking] == left + behind
    assert sum(done.bound_block_items for done in found.rounds) == bound


@pytest.fixture(scope="module")
def nine(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    return synthetic_bench(tmp_path_factory.mktemp("nine"), "quarter", 9, 80, 0)


def test_sharing_and_halving_do_exactly_the_lower_bound(nine: Bench) -> None:
    for strategy in ("shared_prefix", "shared_prefix_halving"):
        found, executor = nine.search(strategy)
        assert executor.counts.block_items == sum(done.bound_block_items for done in found.rounds)
        assert executor.counts.repeated_block_items == 0
    found, executor = nine.search("exhaustive")
    assert executor.counts.block_items == 9 * 8 * 80
    found, executor = nine.search("halving")
    assert executor.counts.block_items == 8 * sum(r.models * (r.until - r.since) for r in
                                                  plan_rounds(9, 80, "halving"))


def test_a_budget_without_room_to_keep_repeats_and_says_so(nine: Bench) -> None:
    least = max(before.out_bytes + cost.out_bytes + cost.work_bytes for before in nine.costs.values()
                for cost in nine.costs.values()) + max(cost.fixed_bytes for cost in nine.costs.values())
    found, executor = nine.search("shared_prefix", Budget(least, 80))
    assert executor.counts.repeated_block_items > 0
    assert executor.counts == found.predicted
    assert by_name(found) == pytest.approx(by_name(nine.search("exhaustive")[0]), abs=1e-5)
    check_work_and_memory(nine, found, executor, Budget(least, 80))


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_budget_too_small_for_one_item_is_one_sentence(nine: Bench, strategy: Strategy) -> None:
    with pytest.raises(InputError, match=r"^budget_bytes=999: one item needs \d+ bytes in the hungriest block alone; "
                                         r"give at least that$"):
        nine.search(strategy, Budget(999, 80))


def test_the_measured_peak_is_the_predicted_one(nine: Bench) -> None:
    """Without the items, which stay where they are on a CPU, and without what calls need however few the items."""
    found, executor = nine.search("shared_prefix", Budget(2**30, 40))
    plan = found.rounds[0].plan
    assert plan
    with torch.inference_mode():
        measured = measure_peak(plan, executor, "cpu")
    assert measured <= plan.peak_bytes <= 1.15 * measured + max(cost.fixed_bytes for cost in nine.costs.values())


@pytest.mark.parametrize("strategy", ["exhaustive", "halving"])
def test_the_peak_is_that_of_the_hungriest_model(tmp_path: Path, strategy: Strategy) -> None:
    """The first model of the store is a small one; the peak that is measured is the large one's."""
    store = SnapshotStore(tmp_path / "store")
    for name, channels in (("a_small", 2), ("b_large", 32), ("c_small", 2)):
        network = synthetic_network(blocks=4, channels=channels, image_size=8, features=5)
        store.add(name, network, [(block.kind, block.module.state_dict()) for block in build_blocks(network)])
    bench = make_bench(store, 64, 8)
    found, executor = bench.search(strategy)
    plan = found.rounds[0].plan
    assert plan
    with torch.inference_mode():
        measured = measure_peak(plan, executor, "cpu")
    assert measured <= plan.peak_bytes <= 1.15 * measured + max(cost.fixed_bytes for cost in bench.costs.values())


class CountingTimer(Untimed):
    def __init__(self) -> None:
        self.batches: list[int] = []

    def end_batch(self, items: int) -> None:
        self.batches.append(items)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_an_item_counts_once_however_many_models_see_it(nine: Bench, strategy: Strategy) -> None:
    timer = CountingTimer()
    nine.search(strategy, Budget(2**30, 20), timer=timer)
    assert sum(timer.batches) == nine.items
    assert min(timer.batches) >= 0
    assert len(timer.batches) > 9


@pytest.mark.parametrize(("strategy", "after"), [("exhaustive", 1), ("exhaustive", 3), ("shared_prefix", 3),
                                                 ("halving", 4), ("halving", 9), ("halving", 11),
                                                 ("shared_prefix_halving", 14)])
def test_a_stopped_search_goes_on_where_it_was(nine: Bench, tmp_path: Path, strategy: Strategy, after: int) -> None:
    """Stopped after some scores were written, as a kill would: the resumed search does not compute those again. With
    nine models the first round has 9 scores and the second 5."""
    whole, complete = nine.search(strategy)

    class Stopped(Exception):
        pass

    class Stopping(Checkpoint):
        left = after

        def add(self, blocks: Sequence[str], items: int, scored: Scored) -> None:
            super().add(blocks, items, scored)
            Stopping.left -= 1
            if Stopping.left == 0:
                raise Stopped

    stopping = Stopping(tmp_path / "run.txt", "what")
    with pytest.raises(Stopped):
        nine.search(strategy, checkpoint=stopping)
    stopping.close()
    with (tmp_path / "run.txt").open("a") as file:
        file.write('["torn')
    for question, expected in (("something else", 0), ("what", after)):
        checkpoint = Checkpoint(tmp_path / "run.txt", question)
        found, executor = nine.search(strategy, checkpoint=checkpoint)
        checkpoint.close()
        assert found.resumed_models == expected
        assert executor.counts == found.predicted
        assert (executor.counts.block_items < complete.counts.block_items) == bool(expected)
        assert [ranked.model for ranked in found.ranking] == [ranked.model for ranked in whole.ranking]
        assert by_name(found) == pytest.approx(by_name(whole), abs=1e-5)


@pytest.mark.parametrize(("strategy", "after", "items"), [
    ("shared_prefix", 1, 0), ("shared_prefix", 9 + 9 + 4, 40), ("shared_prefix", 3 * 9, 60),
    ("halving", 9 + 1, 10), ("halving", 9 + 5 + 2, 20), ("halving", 9 + 5 + 3, 40 - 1),
    ("shared_prefix_halving", 9 - 1, 0), ("shared_prefix_halving", 9, 10 - 1), ("shared_prefix_halving", 9 + 2, 10),
    ("shared_prefix_halving", 9 + 5 + 3 + 2, 60)])
def test_a_search_stopped_between_scores_keeps_its_features(nine: Bench, tmp_path: Path, strategy: Strategy, after: int,
                                                            items: int) -> None:
    """Stopped after the features of some models and chunks were kept, with the next half written. Chunks are of 20
    items; with halving 9, 5, 3 and 2 models see up to 10, 20, 40 and 80 of them. A chunk that only some models have,
    and the last item before a score, run once more."""
    budget = Budget(2**30, 20)
    whole, complete = nine.search(strategy, budget)

    class Stopped(Exception):
        pass

    class Stopping(Checkpoint):
        left = after

        def keep(self, blocks: Sequence[str], chunk: range, features: torch.Tensor) -> None:
            super().keep(blocks, chunk, features)
            Stopping.left -= 1
            if Stopping.left == 0:
                raise Stopped

    stopping = Stopping(tmp_path / "run.txt", "what")
    with pytest.raises(Stopped):
        nine.search(strategy, budget, stopping)
    stopping.close()
    file = tmp_path / "finished_features"
    kept = file.read_bytes()
    for torn in (kept[:20], kept[:100]):  # in the middle of the line before the features, and behind it
        file.write_bytes(kept + torn)
        Checkpoint(tmp_path / "run.txt", "what").close()
        assert file.read_bytes() == kept
    for question, expected in (("something else", 0), ("what", items)):
        checkpoint = Checkpoint(tmp_path / "run.txt", question)
        found, executor = nine.search(strategy, budget, checkpoint)
        checkpoint.close()
        assert found.resumed_items == expected
        assert executor.counts == found.predicted
        assert (executor.counts.block_items < complete.counts.block_items) == bool(expected)
        if strategy == "shared_prefix":
            assert executor.counts.block_items == complete.counts.block_items * (80 - expected) // 80
        assert [ranked.model for ranked in found.ranking] == [ranked.model for ranked in whole.ranking]
        assert by_name(found) == pytest.approx(by_name(whole), abs=1e-5)


def test_exhaustive_keeps_no_features_and_nothing_is_left_behind(nine: Bench, tmp_path: Path) -> None:
    """A baseline that wrote what it never reads would make the others look better."""
    checkpoint = Checkpoint(tmp_path / "run.txt", "what")
    nine.search("exhaustive", Budget(2**30, 20), checkpoint)
    assert (tmp_path / "finished_features").stat().st_size == 0
    checkpoint.remove()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_price_is_known_before_anything_runs(nine: Bench, strategy: Strategy) -> None:
    """3 s a block and item, 1000 s a call: told before the first block runs, and the sum of what then was done."""
    priced = nine._replace(costs={block: cost._replace(item_s=3.0, call_s=1000.0)
                                  for block, cost in nine.costs.items()})

    class Stopped(Exception):
        pass

    def stop(done: RoundDone) -> None:
        assert done.price
        assert done.price.seconds > 3 * done.bound_block_items
        raise Stopped

    with pytest.raises(Stopped):
        priced.search(strategy, planned=stop)
    told: list[RoundDone] = []
    found, executor = priced.search(strategy, Budget(2**30, 20), planned=told.append)
    assert told == found.rounds
    calls = sum(plan_.count(Kind.RUN) for done in told if done.plan for plan_ in done.plan.passes)
    assert sum(done.price.seconds for done in told if done.price) == pytest.approx(
        3.0 * executor.counts.block_items + 1000.0 * calls)


class SlowStore(SnapshotStore):
    """A disk that takes its time; who reads is noted."""

    def __init__(self, folder: Path, seconds: float) -> None:
        super().__init__(folder)
        self.seconds, self.readers = seconds, set[str]()

    def load(self, block: str) -> dict[str, torch.Tensor]:
        self.readers.add(threading.current_thread().name)
        time.sleep(self.seconds)
        return super().load(block)


class SlowBlock(torch.nn.Module):
    def __init__(self, inner: torch.nn.Module, seconds: float) -> None:
        super().__init__()
        self.inner, self.seconds = inner, seconds

    def state_dict(self, *args: Any, **kwargs: Any) -> Any:
        return self.inner.state_dict(*args, **kwargs)

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        time.sleep(self.seconds)
        return self.inner(values)


class WaitTimer(Untimed, AbstractContextManager[None]):
    """Adds up the seconds of one phase."""

    def __init__(self) -> None:
        self.waited_s = self.since = 0.0

    def phase(self, name: str, on_device: bool = False) -> AbstractContextManager[None]:
        return self if name == "load_state" else nullcontext()

    def __enter__(self) -> None:
        self.since = time.perf_counter()

    def __exit__(self, *reason: object) -> None:
        self.waited_s += time.perf_counter() - self.since


def test_weights_are_read_while_blocks_compute(nine: Bench) -> None:
    """Reading takes as long as computing: hidden behind it, most of the reading is not waited for."""
    slow = SlowStore(nine.store.folder, 0.02)
    bench = nine._replace(store=slow, modules={kind: SlowBlock(module, 0.06)
                                               for kind, module in nine.modules.items()})
    timer = WaitTimer()
    _, executor = bench.search("shared_prefix", timer=timer)
    assert len(slow.readers) == 1
    assert threading.current_thread().name not in slow.readers
    assert timer.waited_s < 0.5 * executor.counts.loads * 0.02


def test_real_networks_of_different_shapes_are_searched_together(tmp_path: Path) -> None:
    """Two residual networks that share a prefix and one of another kind, with features of another width."""
    store = SnapshotStore(tmp_path / "store")
    base = import_model(store, "base", "resnet18", 32)
    other = import_model(store, "other", "resnet18", 32, seed=1)
    import_model(store, "mobile", "mobilenet_v2", 32)
    mixed = [(block.kind, store.load(block.hash)) for block in [*base.blocks[:7], *other.blocks[7:]]]
    store.add("mixed", base.network, mixed)
    bench = make_bench(store, 41, 32)
    scores = [by_name(bench.search(strategy, Budget(2**30, 16))[0]) for strategy in ("exhaustive", "shared_prefix")]
    assert scores[0] == pytest.approx(scores[1], abs=1e-5)
    assert len(set(scores[0].values())) == 4
