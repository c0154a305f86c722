"""What do checkpointing and several devices cost and gain when a network is trained?

A training loop with a real loader: plain, with checkpointing, or on several devices (DP, DDP, FSDP). Each batch has
the phases load_data, data_to_device, forward, backward and optimizer; start-up and validation are stages of their own
and no part of the epoch. The loss of every batch is kept. On a CPU the devices are processes that talk over gloo.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import model_validator

from engine.building import prepare_items
from engine.data import make_loader
from engine.formats import Format
from engine.machine import cpu_allowance
from engine.memory_methods import Method as MemoryMethod
from engine.memory_methods import apply_method, method_problem
from engine.models import build_model, image_size_problem
from engine.norms import Norm, count_batch_norms, norm_setting, single_value_problem, use_group_norm
from engine.parallel import IN_RANKS, ONE_DEVICE, Method, join_ranks, rank_device, wrap
from engine.params import Params as BaseParams
from engine.params import setting
from engine.profiling import profile_batches
from engine.ranks import end_with_rank, launch_ranks, rank_log
from engine.settings import (
    DataName,
    DeviceName,
    ModelName,
    StoredItems,
    check_stored_items,
    data_setting,
    device_setting,
    format_setting,
    image_size_setting,
    model_setting,
    need_at_most,
    no_such_device,
    pin_memory_setting,
    prefetch_setting,
    profile_setting,
    workers_setting,
)
from engine.training_loop import Place, Trainer
from engine.training_sets import TrainingSets, open_sets
from engine.training_step import OptimizerName, make_optimizer, optimizer_setting

if TYPE_CHECKING:
    from engine.clock import Clock
    from engine.nvml import Gpus
    from engine.recorder import Recorder

SEED_002_BATCH: dict[Method, int] = {"baseline": 512, "checkpointing": 1500, "reversible": 512, "dp": 1250, "ddp": 1500,
                                     "fsdp": 1500}
"""Per device, as seed 002 chose them; its 2,500 of DP are split over two GPUs. It had no reversible blocks."""
GATE_IMAGES = 4


class Params(BaseParams):
    method: Method = setting("baseline", title="Method",
                             help="baseline: plain, one device. checkpointing: activations are computed again. "
                                  "reversible: RevNets compute inputs from outputs. dp: DataParallel, needs GPUs. ddp, "
                                  "fsdp: one process per device.")
    devices: int | None = setting(None, title="Devices", unit="devices", ge=1, le=64,
                                  help="GPUs, or processes on a CPU. Empty: two for dp, ddp and fsdp, one for "
                                       "the others.")
    model: ModelName = model_setting()
    batch_size: int | None = setting(32, title="Batch size per device", unit="images", ge=1, le=65536,
                                     help="Images that each device takes per step; the global batch is this times the "
                                          "devices. Empty: seed 002's for the method (512, 1500, 1250, 1500).")
    checkpoint_parallel: bool = setting(False, title="Checkpointing on several devices",
                                        help="dp, ddp and fsdp also compute activations again, as seed 002's scripts "
                                             "did. Without effect on the methods of one device.")
    norm: Norm = norm_setting()
    train_images: int = setting(640, title="Training images", unit="images", ge=1, le=10_000_000,
                                help="Images of one epoch; full global batches only (100,000 in seed 002).")
    val_images: int = setting(64, title="Validation images", unit="images", ge=0, le=10_000_000,
                              help="The next so many of the set, never trained on. 0: no validation.")
    epochs: int = setting(1, title="Epochs", unit="epochs", ge=1, le=999, help="Passes over the training images.")
    optimizer: OptimizerName = optimizer_setting()
    workers: int = workers_setting()
    data: DataName = data_setting()
    image_size: int = image_size_setting()
    device: DeviceName = device_setting()
    precision: Literal["fp32", "bf16"] = setting("fp32", title="Precision",
                                                 help="bf16 runs the forward pass under autocast.")
    warm_up_batches: int = setting(2, title="Warm-up", unit="batches", ge=2, le=1000,
                                   help="Forward and backward passes of the real shape before the clock starts; they "
                                        "teach nothing.")
    prefetch_factor: int = prefetch_setting()
    pin_memory: bool = pin_memory_setting()
    format: Format = format_setting()
    profile: bool = profile_setting()

    @model_validator(mode="after")
    def _fits_together(self) -> Params:
        if problem := image_size_problem(self.model, self.image_size, "random"):
            raise ValueError(problem)
        if self.train_images < self.global_batch_size:
            raise ValueError(f"train_images={self.train_images}: fewer than one global batch of "
                             f"{self.global_batch_size}; ask for more images or a smaller batch")
        if self.norm == "batch" and (problem := single_value_problem(
                self.model, self.device_batch_size, self.image_size, " or norm=group")):
            raise ValueError(problem)
        return self

    @property
    def used_devices(self) -> int:
        return self.devices or (1 if self.method in ONE_DEVICE else 2)

    @property
    def device_batch_size(self) -> int:
        return self.batch_size or SEED_002_BATCH[self.method]

    @property
    def global_batch_size(self) -> int:
        return self.device_batch_size * self.used_devices

    @property
    def checkpointed(self) -> bool:
        return self.method == "checkpointing" or (self.checkpoint_parallel and self.method not in ONE_DEVICE)

    @property
    def memory_method(self) -> MemoryMethod:
        """What each device does to need less memory."""
        return "checkpoint" if self.checkpointed else "reversible" if self.method == "reversible" else "plain"

    @property
    def stored_items(self) -> StoredItems:
        return StoredItems(self.data, self.format, self.image_size, self.train_images + self.val_images)


def check(cells: Iterable[Params], cache: Path) -> None:
    check_stored_items((cell.stored_items for cell in cells), cache)


def prepare(cells: list[Params], cache: Path, progress: Callable[[int, int], None]) -> None:
    for need in need_at_most(cell.stored_items for cell in cells):
        prepare_items(*need, cache, progress)


def cannot_run(params: Params, gpus: Gpus) -> str | None:
    devices, found = params.used_devices, len(gpus.devices)
    if problem := method_problem(params.model, params.memory_method):
        return problem
    if params.method in ONE_DEVICE and devices > 1:
        return f"method={params.method}: trains on one device, not on {devices}; dp, ddp and fsdp take several"
    if params.method == "dp" and params.device == "cpu":
        return "method=dp: device=cpu was asked for and DataParallel needs CUDA devices; ddp and fsdp also run on a CPU"
    if params.method == "dp" and found < devices:
        needed = f"{devices} CUDA {'device' if devices == 1 else 'devices'}"
        return f"method=dp: needs {needed} and this machine has {found}; ddp and fsdp also run on a CPU"
    if params.method != "dp" and params.device.startswith("cuda") and 0 < found < devices:
        return f"method={params.method}: asks for {devices} GPUs and this machine has {found}"
    if params.method in IN_RANKS and params.device == "auto" and 0 < found < devices:
        return (f"method={params.method}: needs {devices} GPUs and this machine has {found}; on the CPU its times "
                f"would stand beside a GPU's, so choose device=cpu for all cells, or at most {found} devices")
    return no_such_device(params.device, gpus)


def run(params: Params, recorder: Recorder) -> None:
    if params.method not in IN_RANKS:
        from engine.devices import choose_device

        _train(params, recorder, Place(0, 1, choose_device(params.device)))
        return
    folder = recorder.folder / f"{recorder.run_id}.ranks"
    shutil.rmtree(folder, ignore_errors=True)  # an earlier attempt's
    recorder.event(f"{params.used_devices} ranks, started by torch's launcher")
    recorder.flush()  # from here on rank 0 writes to the journal
    try:
        ended_at = launch_ranks(partial(_train_in_rank, params, recorder, folder), params.used_devices, folder,
                                recorder.run_id)
    finally:
        for rank in range(1, params.used_devices):
            for file, title in ((rank_log(folder, rank), "log"), (_rank_journal(folder, rank), "journal")):
                if file.exists() and file.stat().st_size:
                    recorder.keep_file(file, f"{title} of rank {rank}")
    recorder.last_stage_end = ended_at[0]
    for rank in range(1, params.used_devices):
        for phase, seconds in mean_phases(_rank_journal(folder, rank)).items():
            recorder.metric(f"rank_{rank}_{phase}_s", seconds, "s")


def _rank_journal(folder: Path, rank: int) -> Path:
    return folder / f"rank-{rank}.jsonl"


def mean_phases(journal: Path) -> dict[str, float]:
    """Seconds per batch of each phase, from a rank's own journal."""
    from engine.journal import Batches, read_records

    seconds: dict[str, list[float]] = {}
    for record in read_records(journal):
        if isinstance(record, Batches):
            for column in record.phases:
                seconds.setdefault(column.phase, []).extend(value for value in column.seconds if value is not None)
    return {phase: sum(values) / len(values) for phase, values in seconds.items()}


def _train_in_rank(params: Params, recorder: Recorder, folder: Path, rank: int) -> float:
    """Rank 0 measures for the run. What the others measure is kept, too, in journals of their own. Returns when the
    last stage ended."""
    from engine.journal import JournalWriter
    from engine.recorder import Recorder

    if rank > 0:
        journal = JournalWriter(_rank_journal(folder, rank))
        recorder = Recorder(recorder.run_id, journal, recorder.origin, lambda stage: None, folder, recorder.cache)
    try:
        _train(params, recorder, Place(rank, params.used_devices,
                                       rank_device(params.device, rank, params.used_devices)))
    finally:
        recorder.flush()
    return recorder.last_stage_end


def _train(params: Params, recorder: Recorder, place: Place) -> None:
    """The whole training of one process."""
    import torch

    from engine.devices import autocast, begin_torch, forget_peaks, settle

    device = begin_torch(params, place.device)
    if place.ranks > 1 and not params.threads:
        # As torchrun does, so that the ranks do not fight for the cores; but all cores are used.
        torch.set_num_threads(max(1, int(cpu_allowance().cores) // place.ranks))
    if params.method in IN_RANKS:
        join_ranks(device)
    with recorder.stage("prepare_data"):
        sets = open_sets(
            params.stored_items, recorder.cache, params.train_images, params.global_batch_size, place,
            params.seed, partial(make_loader, workers=params.workers, pin_memory=params.pin_memory,
                                 prefetch_factor=params.prefetch_factor, seed=params.seed,
                                 in_worker=end_with_rank if params.method in IN_RANKS else None))
    recorder.effective(
        threads=torch.get_num_threads(), device=device, devices=params.used_devices,
        batch_size=params.device_batch_size, global_batch_size=params.global_batch_size,
        train_images=sets.batches * params.global_batch_size, val_images=sets.val_images,
        batches_per_epoch=sets.batches, workers=sets.train.num_workers, prefetch_factor=sets.train.prefetch_factor,
        checkpointing=params.checkpointed, classes=sets.classes,
        pin_memory=params.pin_memory and torch.cuda.is_available(),  # without CUDA torch leaves it out
        timing="host" if device == "cpu" else "overlapped", loader_context="fork" if params.workers else "none")
    with recorder.stage("init_model"):
        torch.manual_seed(params.seed)
        model: Any = build_model(params.model, params.image_size, "random", sets.classes)
        if params.norm == "group":
            use_group_norm(model)
    recorder.effective(batch_norms=count_batch_norms(model))
    with recorder.stage("model_to_device"):
        model = model.to(device)
        settle(device)
    with recorder.stage("warm_up"):
        if params.memory_method != "plain":
            model = _save_memory(model, params, sets.classes, device, recorder)
        # Before the passes of the warm-up, so that the memory they take is there when the clock starts.
        forget_peaks(device)
        model = wrap(model, params.method, device, params.used_devices)
        trainer = Trainer(model, make_optimizer(params.optimizer, model), autocast(device, params.precision), place,
                          params.global_batch_size)
        pixels, labels = _example(params.global_batch_size // place.ranks, params.image_size, sets.classes, device)
        for _ in range(params.warm_up_batches):
            trainer.warm_up(pixels, labels)
            recorder.alive()
        del pixels, labels
        settle(device)

    with recorder.measure(device) as clock:
        epochs_s = [_epoch(trainer, sets, clock, number) for number in range(params.epochs)]
    _record_epochs(trainer, recorder, epochs_s)
    if device.startswith("cuda"):
        recorder.metric("peak_memory_bytes", torch.cuda.max_memory_allocated(device), "bytes")
        recorder.metric("peak_reserved_bytes", torch.cuda.max_memory_reserved(device), "bytes")
    if sets.val is not None:
        with recorder.stage("validate"):
            loss, accuracy = trainer.validate(sets.val, recorder)
        recorder.metric("val_loss", loss)
        recorder.metric("val_accuracy", accuracy)
    if params.profile:
        profile_batches(recorder, device, sets.train, trainer.step, watched=place.rank == 0)


def _example(count: int, side: int, classes: int, device: str) -> tuple[Any, Any]:
    import torch

    return (torch.rand(count, 3, side, side, device=device),
            torch.randint(0, classes, (count,), device=device))


def _save_memory(model: Any, params: Params, classes: int, device: str, recorder: Recorder) -> Any:
    """The model with every block computed again in backward, once its gradients are known to be those of plain
    training: seed 002's checkpointed model trained only its last layer."""
    from engine.gradient_gate import GateFailed, check_gradients, gate_size

    method = partial(apply_method, method=params.memory_method)
    side = gate_size(params.model, params.image_size)
    gate = check_gradients(model, method, *_example(GATE_IMAGES, side, classes, device), params.seed)
    recorder.metric("gradient_error", gate.error)
    if not gate.passed:
        raise GateFailed(f"method={params.method}: {gate.problem}; it is not timed")
    recorder.alive()
    return method(model)


def _epoch(trainer: Trainer, sets: TrainingSets, clock: Clock, number: int) -> float:
    sets.sampler.set_epoch(number)
    return trainer.epoch(sets.train, clock)


def _record_epochs(trainer: Trainer, recorder: Recorder, epochs_s: list[float]) -> None:
    recorder.metric("actual_epoch_s", sum(epochs_s) / len(epochs_s), "s")
    if len(epochs_s) > 1:
        for number, seconds in enumerate(epochs_s, start=1):
            recorder.metric(f"epoch_{number:03d}_s", seconds, "s")
    losses = trainer.global_losses()
    for at, loss in zip(trainer.ended_at, losses, strict=True):
        recorder.sample("training", at, loss=loss)
    recorder.metric("first_loss", losses[0])
    recorder.metric("last_loss", losses[-1])
