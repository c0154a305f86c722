"""Which strategy finds the best of many models soonest, and what work does it save?

Every model of a store is scored on features that it extracts from the items. Exhaustive runs each model on all items;
halving drops the worse half round by round; shared_prefix runs each part that models share once per item. All that see
the same items give the same ranking: what differs is the time.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import AfterValidator, model_validator

from engine.data import list_classes, prepare_data
from engine.params import InputError, setting
from engine.params import Params as BaseParams
from engine.profiling import profile_batches
from engine.scoring import Scorer
from engine.search_items import PATTERNS
from engine.search_network import size_problem, synthetic_network
from engine.search_outline import outline
from engine.search_plan import Strategy, describe_plan, plan_rounds
from engine.search_tree import Snapshot
from engine.settings import (
    NAMED_SETS,
    DeviceName,
    check_image_sets,
    device_setting,
    no_such_device,
    profile_setting,
)
from engine.snapshot_stores import list_stores, stores_folder
from engine.snapshots import SnapshotStore, StoredModel, check_name
from engine.splits import classes_used
from engine.synthetic_snapshots import DISTRIBUTIONS, prepare_synthetic, synthetic_folder

if TYPE_CHECKING:
    from engine.nvml import Gpus
    from engine.recorder import Recorder
    from engine.search import Found, RoundDone

FEATURES = 64
STEPS_KEPT = 5_000


def _items_from(name: str) -> str:
    """A folder is kept by its whole path: the run has another working folder than the person who asked."""
    return name if name in (PATTERNS, *NAMED_SETS) else os.path.abspath(os.path.expanduser(name))


def _store_name(name: str) -> str:
    try:
        check_name(name)
    except InputError:
        raise ValueError(f"must be one of {', '.join(DISTRIBUTIONS)} or the name of an imported store") from None
    return name


class Params(BaseParams):
    snapshots: Annotated[str, AfterValidator(_store_name)] = setting(
        "top_layers", title="Snapshots", max_length=100, options=list(DISTRIBUTIONS),
        help="A synthetic store, by how much its models differ: the top layers (10 % of the blocks), a quarter or half "
             "of them; or the name of an imported store.")
    models: int = setting(35, title="Models", unit="models", ge=1, le=10_000,
                          help="Of a synthetic store. An imported one is searched whole.")
    blocks: int = setting(50, title="Blocks", unit="blocks", ge=3, le=1000, help="Of each model of a synthetic store.")
    channels: int = setting(32, title="Channels", ge=1, le=1024,
                            help="Width of a synthetic store's blocks: more of them take longer to run.")
    strategy: Strategy = setting("shared_prefix_halving", title="Strategy",
                                 help="In which order models, blocks and items are gone through.")
    items: int = setting(1024, title="Items", unit="items", ge=5, le=10_000_000,
                         help="Every model that stays until the end sees so many.")
    scorer: Scorer = setting("ridge", title="Score", help="A closed-form head on the features, all models at once.")
    budget_bytes: int = setting(2**28, title="Memory budget", unit="bytes", ge=1, le=2**46,
                                help="For activations. What does not fit at once goes in chunks of items.")
    batch_size: int = setting(256, title="Items at once", unit="items", ge=1, le=65536,
                              help="At most so many in one chunk, even if the budget has room for more.")
    data: Annotated[str, AfterValidator(_items_from)] = setting(
        PATTERNS, title="Items from", max_length=4096, options=[PATTERNS, *NAMED_SETS], folder=True,
        help="patterns are drawn in memory; generated, imagenette, or a folder that holds one folder per class.")
    image_size: int = setting(8, title="Image size", unit="px", ge=2, le=2048, help="Side of an item.")
    device: DeviceName = device_setting()
    profile: bool = profile_setting()

    @model_validator(mode="after")
    def _enough_items(self) -> Params:
        if self.snapshots in DISTRIBUTIONS:  # how many an imported store has is on disk: check() looks
            plan_rounds(self.models, self.items, self.strategy)
        return self

    @property
    def network(self) -> dict[str, Any]:
        return synthetic_network(self.blocks, self.channels, self.image_size, FEATURES)


def check(cells: Iterable[Params], cache: Path) -> None:
    listed = list(cells)
    sets = {cell.data for cell in listed} - {PATTERNS}
    check_image_sets(sets, cache)
    for data in sorted(sets):
        classes_used(data, None, None, len(list_classes(data, cache)))
    for name in {cell.snapshots for cell in listed} - set(DISTRIBUTIONS):
        _check_store(name, [cell for cell in listed if cell.snapshots == name], cache)


def _check_store(name: str, cells: list[Params], cache: Path) -> None:
    """An imported store is there, takes items of this size and has few enough models for the rounds."""
    models = SnapshotStore(stores_folder(cache) / name).models()
    if not models:
        there = list_stores(cache)
        why = "this store has no snapshots" if name in there else (
            f"there is no such store (there are {', '.join([*DISTRIBUTIONS, *there])})")
        raise InputError(f"snapshots={name}: {why}; import one with `python lab.py snapshots import`")
    for cell in cells:
        plan_rounds(len(models), cell.items, cell.strategy)
    networks: dict[str, StoredModel] = {}
    for model in models:
        networks.setdefault(json.dumps(model.network, sort_keys=True), model)
    for size in sorted({cell.image_size for cell in cells}):
        for model in networks.values():
            if problem := size_problem(model.network, size):
                raise InputError(f"{problem}, and the store {name} holds it ({model.name}); choose another size")


def prepare(cells: list[Params], cache: Path, progress: Callable[[int, int], None]) -> None:
    needs: dict[str, int] = {}
    for cell in cells:
        if cell.snapshots in DISTRIBUTIONS:
            prepare_synthetic(cache, cell.snapshots, cell.models, cell.network, cell.seed, progress)
        if cell.data != PATTERNS:
            needs[cell.data] = max(needs.get(cell.data, 0), cell.items)
    for name, items in needs.items():
        prepare_data(name, items, cache, progress)


def cannot_run(params: Params, gpus: Gpus) -> str | None:
    return no_such_device(params.device, gpus)


def open_store(params: Params, cache: Path) -> SnapshotStore:
    if params.snapshots in DISTRIBUTIONS:
        return SnapshotStore(synthetic_folder(cache, params.snapshots, params.models, params.network, params.seed))
    return SnapshotStore(stores_folder(cache) / params.snapshots)


def run(params: Params, recorder: Recorder) -> None:
    import torch

    from engine.devices import begin_torch, settle
    from engine.search import Budget, measure_peak, run_some_blocks, search
    from engine.search_checkpoint import Checkpoint
    from engine.search_costs import measure_costs
    from engine.search_executor import Executor
    from engine.search_items import load_items
    from engine.search_network import build_modules

    device = begin_torch(params, params.device)
    with recorder.stage("prepare_data"):
        items = load_items(params.data, params.items, params.image_size, params.seed, recorder.cache, recorder.alive)
    with recorder.stage("init_model"):
        store = open_store(params, recorder.cache)
        models = store.models()
        modules = build_modules(models, device)
    kinds = {block.hash: block.kind for model in models for block in model.blocks}
    snapshots = [Snapshot(model.name, [block.hash for block in model.blocks]) for model in models]
    executor = Executor(store, modules, kinds, items.pixels, items.labels, items.classes, params.scorer, device)
    files = recorder.folder / f"{recorder.run_id}.files"  # erased together with the run
    checkpoint = Checkpoint(files / "finished_scores.txt", question(params))
    with torch.inference_mode():
        with recorder.stage("warm_up"):
            costs = measure_costs(store, models, modules, items.pixels, device, recorder.alive)
            settle(device)
        with recorder.measure(device) as clock:
            found = search(snapshots, executor, costs, items.pixels[0].nbytes, params.items, params.strategy,
                           Budget(params.budget_bytes, params.batch_size), clock, checkpoint,
                           lambda done: recorder.event(_tell(done)))
        assert executor.counts == found.predicted, f"planned {found.predicted}, did {executor.counts}"
        plans = [done.plan for done in found.rounds if done.plan]
        with recorder.stage("validate"):
            largest = max(plans, key=lambda plan: plan.peak_bytes, default=None)
            if largest:
                recorder.metric("activation_peak_bytes", measure_peak(largest, executor, device), "bytes")
    if largest:
        recorder.metric("predicted_peak_bytes", largest.peak_bytes, "bytes")
        recorder.metric("kept_peak_bytes", max(plan.kept_bytes for plan in plans), "bytes")
    recorder.effective(threads=torch.get_num_threads(), device=device, models=len(models), items=len(items.pixels),
                       chunk_items=max((plan.chunk_items for plan in plans), default=None))
    _write_metrics(recorder, found, models, params.items)
    recorder.metric("priced_inference_s", sum(done.price.seconds for done in found.rounds if done.price), "s")
    mean = {name: sum(getattr(costs[block], name) for block in kinds) / len(kinds)
            for name in ("item_s", "call_s", "load_s")}
    for name, value in mean.items():
        recorder.metric(f"block_{name}", value, "s")
    _keep_result(recorder, files, found, snapshots)
    checkpoint.remove()
    if params.profile and largest:
        with torch.inference_mode():
            profile_batches(recorder, device, [(largest, executor)], run_some_blocks)


def question(params: Params) -> str:
    """All that determines a score besides a model's blocks and the number of items it saw."""
    return json.dumps([params.data, params.image_size, params.seed, params.scorer])


def _tell(done: RoundDone) -> str:
    """What a round will take, before it begins."""
    assert done.plan and done.price
    return (f"planned: {len(done.plan.tree.names)} models up to item {done.round.until}, {done.price.block_items} "
            f"block-item pairs, priced at {done.price.seconds:.3f} s of computing")


def _write_metrics(recorder: Recorder, found: Found, models: list[StoredModel], items: int) -> None:
    recorder.metric("block_items", found.predicted.block_items, "block-items")
    recorder.metric("repeated_block_items", found.predicted.repeated_block_items, "block-items")
    recorder.metric("bound_block_items", sum(done.bound_block_items for done in found.rounds), "block-items")
    recorder.metric("exhaustive_block_items", items * sum(len(model.blocks) for model in models), "block-items")
    recorder.metric("block_loads", found.predicted.loads, "loads")
    recorder.metric("resumed_models", found.resumed_models, "models")
    recorder.metric("resumed_items", found.resumed_items, "items")
    recorder.metric("best_score", found.ranking[0].score)
    recorder.metric("best_top1", found.ranking[0].top1)


def _keep_result(recorder: Recorder, files: Path, found: Found, snapshots: list[Snapshot]) -> None:
    result = files / "search.json"
    result.write_text(json.dumps({
        "ranking": [ranked._asdict() for ranked in found.ranking],
        "rounds": [done.round._asdict() for done in found.rounds], "parts": outline(snapshots)}))
    recorder.keep_file(result, "Ranking, rounds, and what the models share")
    steps = files / "plan.txt"
    steps.write_text("\n".join(line for number, done in enumerate(found.rounds, 1) if done.plan
                               for line in [f"round {number}", *describe_plan(done.plan, STEPS_KEPT)]) + "\n")
    recorder.keep_file(steps, f"The plan of each round, its first {STEPS_KEPT:,} steps spelled out")
