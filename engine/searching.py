"""One run of a search: prepare models, run items through them, score the features, each group timed by itself."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from itertools import repeat
from pathlib import Path
from statistics import fmean
from time import perf_counter
from typing import TYPE_CHECKING, Any

from engine.blocks import Block, join, join_heads
from engine.file_cache import cached_share, set_cache
from engine.profiling import profile_batches
from engine.scores import Features, score_linear
from engine.search_models import build_blocks, part_begins
from engine.splits import open_loader, open_split
from engine.states import load_state
from engine.text import TokenItems

if TYPE_CHECKING:
    import torch

    from engine.clock import Clock
    from engine.experiments.bottleneck import Params
    from engine.recorder import Recorder

WARM_UP = 2


def run_search(params: Params, recorder: Recorder) -> None:
    import torch

    from engine.devices import autocast, begin_torch

    device = begin_torch(params, params.device)
    if params.is_text:
        import transformers  # noqa: F401  # seconds of importing are the start's, not the model's
    Search(params, recorder, device, autocast(device, params.precision), torch.inference_mode).run()


class Search:
    """The state of one run. Seconds of stages that happen once per model are added up."""

    def __init__(self, params: Params, recorder: Recorder, device: str, precision: Any, no_gradients: Any) -> None:
        self.params, self.recorder, self.device = params, recorder, device
        self.precision, self.no_gradients = precision, no_gradients
        self.network = params.network
        self.seconds: dict[str, float] = defaultdict(float)
        self.state_bytes = 0
        self.shares: list[float] = []
        self.clock: Clock | None = None

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Before the measured window a stage of the run; inside it, with the clock stopped."""
        from engine.devices import settle

        with self.recorder.aside(name, self.clock) if self.clock else self.recorder.stage(name):
            start = perf_counter()
            yield
            settle(self.device)
            self.seconds[name] += perf_counter() - start

    def run(self) -> None:
        import torch

        params, several = self.params, self.params.arrangement != "one"
        self.first = part_begins(self.network, build_blocks(self.network, empty=True)[0])
        activations: torch.Tensor | None = None
        with self.stage("prepare_data"):
            loader = self.open_data()
            # By hand: the loader's own start is part of what is measured.
            example = torch.stack([loader.dataset[index][0] for index in range(min(params.batch_size, params.items))])
            if self.first > 0 and not several:
                example = activations = self.make_activations(example)
        model = self.prepare_model(0, example)
        with self.recorder.measure(self.device) as clock:
            self.clock = clock
            if activations is not None:
                features = self.run_part(model, activations)
            else:
                features = self.run_items(model, loader)
            for number in range(1, params.models if params.arrangement == "separate" else 1):
                del model  # one after another: two never take memory at once
                model = self.prepare_model(number, example)
                features += self.run_items(model, loader)
        self.clock = None
        with self.stage("score"):
            self.score(features, meaningful=activations is None)
        self.record(features)
        if params.profile:
            profile_batches(self.recorder, self.device, loader if activations is None else repeat((activations, None)),
                            partial(self.run_batch, model))

    def open_data(self) -> Any:
        import torch

        params = self.params
        if params.is_text:
            items: Any = TokenItems(params.model, params.items, params.tokens, params.seed, params.classes)
            self.labels, self.head_classes = items.labels, params.head_classes or len(items.classes)
        else:
            split = open_split(params.data, self.recorder.cache, params.image_size, params.train_images,
                               params.held_out, params.classes, params.head_classes)
            items = replace(split.train, files=split.train.files + split.val.files,
                            labels=split.train.labels + split.val.labels)
            self.labels, self.head_classes = items.labels, split.head_classes
        loader = open_loader(items, params.batch_size, params.workers)
        self.recorder.effective(threads=torch.get_num_threads(), device=self.device, workers=loader.num_workers,
                                prefetch_factor=loader.prefetch_factor, head_classes=self.head_classes,
                                timing="host" if self.device == "cpu" else "overlapped",
                                loader_context="fork" if params.workers else "none")
        return loader

    def make_activations(self, items: torch.Tensor) -> torch.Tensor:
        """What the part is given: one real batch, as the blocks before the part leave it."""
        before = build_blocks(self.network, empty=True)[0][: self.first]
        _give_memory(before)
        load_state(before, self.file(0))
        with self.no_gradients(), self.precision:
            found: torch.Tensor = join(before)(items)
        return found

    def file(self, number: int) -> Path:
        return self.network.state_file(self.recorder.cache, number, self.first)

    def prepare_model(self, number: int, example: torch.Tensor) -> torch.nn.Module:
        """Build, load from disk, move to the device, warm up. A joint network holds all models at once."""
        joint = self.params.arrangement == "joint"
        numbers = list(range(self.params.models)) if joint else [number]
        with self.stage("init_model"):
            copies = [build_blocks(self.network, empty=True)[0] for _ in numbers]
            shared = [] if self.params.arrangement == "one" else copies[0][: self.first]
            own = [blocks[self.first :] for blocks in copies]
            for blocks in (shared, *own):
                _give_memory(blocks)
        with self.stage("prepare_data"):
            for file in {self.file(n) for n in ([0, *numbers] if shared else numbers)}:
                set_cache(file, self.params.file_cache)
                if (share := cached_share(file)) is not None:
                    self.shares.append(share)
        with self.stage("load_state"):
            self.state_bytes += load_state(shared, self.file(0)) if shared else 0
            for n, blocks in zip(numbers, own, strict=True):
                self.state_bytes += load_state(blocks, self.file(n))
        with self.stage("model_to_device"):
            model = (join_heads(shared, own) if joint else join([*shared, *own[0]])).eval().to(self.device)
        with self.stage("warm_up"), self.no_gradients(), self.precision:
            given = example.to(self.device)
            for _ in range(WARM_UP):
                model(given)
                self.recorder.alive()
        self.blocks_run = [block for blocks in (shared, *own) for block in blocks]
        return model

    def run_items(self, model: torch.nn.Module, loader: Any) -> list[list[torch.Tensor]]:
        """Every item once; the features of each model by batch."""
        assert self.clock
        load, copy = self.clock.phase("load_data"), self.clock.phase("data_to_device", on_device=True)
        infer = self.clock.phase("inference", on_device=True)
        found: list[list[torch.Tensor]] = []
        loading = None
        with self.no_gradients(), self.precision:
            for _ in range(len(loader)):
                with load:
                    # The workers start inside the first wait: their start-up is part of the first batch.
                    loading = loading or iter(loader)
                    items, _labels = next(loading)
                with copy:
                    items = items.to(self.device)
                with infer:
                    given = model(items)
                outputs = given if isinstance(given, list) else [given]
                found = found or [[] for _ in outputs]
                for features, output in zip(found, outputs, strict=True):
                    features.append(output)
                self.clock.end_batch(len(items))
        return found

    def run_part(self, model: torch.nn.Module, activations: torch.Tensor) -> list[list[torch.Tensor]]:
        """The same batch of activations again and again, from memory: there is nothing to load."""
        assert self.clock
        copy, infer = self.clock.phase("data_to_device", on_device=True), self.clock.phase("inference", on_device=True)
        found = []
        with self.no_gradients(), self.precision:
            for start in range(0, self.params.items, self.params.batch_size):
                batch = activations[: min(self.params.batch_size, self.params.items - start)]
                with copy:
                    batch = batch.to(self.device)
                with infer:
                    found.append(model(batch))
                self.clock.end_batch(len(batch))
        return [found]

    def run_batch(self, model: torch.nn.Module, items: torch.Tensor, _labels: Any) -> None:
        """Outside the clock; of several separate models the last."""
        with self.no_gradients(), self.precision:
            model(items.to(self.device))

    def score(self, features: list[list[torch.Tensor]], meaningful: bool) -> None:
        """One linear layer per model. The features of a part are of one batch again and again: what they score says
        nothing, how long it takes does."""
        import torch

        train = self.params.train_images
        labels = torch.tensor(self.labels, device=self.device)
        top1 = []
        for batches in features:
            rows = torch.cat(batches).float().clone()  # inference tensors take no part in gradients
            found = score_linear(Features(rows[:train], labels[:train], rows[train:], labels[train:]).standardised(),
                                 self.head_classes, self.params.seed)
            top1.append(found.top1)
            self.recorder.alive()
        if meaningful:
            self.recorder.metric("score_linear_top1", fmean(top1))

    def record(self, features: list[list[torch.Tensor]]) -> None:
        recorder, names = self.recorder, [block.name for block in self.blocks_run]
        for name in ("init_model", "load_state", "model_to_device", "score"):
            recorder.metric(f"{name}_s", self.seconds[name], "s")
        recorder.metric("load_state_computed_s", self.state_bytes / self.params.disk_bytes_per_s, "s")
        recorder.metric("state_bytes", self.state_bytes, "bytes")
        if self.shares:
            recorder.metric("state_cached_share", fmean(self.shares))
        recorder.metric("models_searched", len(features), "models")
        recorder.metric("feature_dimension", features[0][0].shape[1])
        recorder.metric("parameters_in_memory", sum(block.parameters for block in self.blocks_run))
        whole = build_blocks(self.network, empty=True)[0]
        recorder.effective(
            runs=f"{names[0]} to {names[-1]}", own_part=f"{whole[self.first].name} to {whole[-1].name}",
            own_blocks=len(whole) - self.first, blocks=len(whole),
            input="one batch of activations, again and again" if self.first > 0 and self.params.arrangement == "one"
            else "the items")


def _give_memory(blocks: Sequence[Block]) -> None:
    for block in blocks:
        block.module.to_empty(device="cpu")
