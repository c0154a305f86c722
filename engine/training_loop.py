"""Training over a real loader, alone or as one rank of several: epochs timed by phase, the loss of every batch kept."""

from __future__ import annotations

from collections.abc import Iterator
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import torch
    from torch.utils.data import DataLoader

    from engine.clock import Clock
    from engine.recorder import Recorder


class Place(NamedTuple):
    """Where this process stands among those that train together."""

    rank: int
    ranks: int
    device: str


class Trainer:
    """A model on its way through the data. `items_per_step` counts the images of all devices together."""

    def __init__(self, model: Any, optimizer: torch.optim.Optimizer, precision: Any, place: Place,
                 items_per_step: int) -> None:
        self.model, self.optimizer, self.precision, self.place = model, optimizer, precision, place
        self.items_per_step = items_per_step
        self.losses: list[torch.Tensor] = []
        self.ended_at: list[float] = []

    def warm_up(self, pixels: torch.Tensor, labels: torch.Tensor) -> None:
        """Forward and backward without a step: nothing is learnt, and statistics stay as they were."""
        import torch

        kept = [buffer.detach().clone() for buffer in self.model.buffers()]
        self.model.train()
        self._loss(pixels, labels).backward()
        self.optimizer.zero_grad(set_to_none=True)
        with torch.no_grad():
            for buffer, before in zip(self.model.buffers(), kept, strict=True):
                buffer.copy_(before)

    def epoch(self, loader: DataLoader[Any], clock: Clock) -> float:
        """One pass; returns its seconds. The workers' start is inside the first wait, as in any real epoch."""
        from engine.devices import settle

        self.model.train()
        device = self.place.device
        load, copy = clock.phase("load_data"), clock.phase("data_to_device", on_device=True)
        forward, backward = clock.phase("forward", on_device=True), clock.phase("backward", on_device=True)
        step = clock.phase("optimizer", on_device=True)
        started = perf_counter()
        batches: Iterator[Any] | None = None
        for _ in range(len(loader)):
            with load:
                batches = batches or iter(loader)
                pixels, labels = next(batches)
            with copy:
                pixels, labels = pixels.to(device, non_blocking=True), labels.to(device, non_blocking=True)
            with forward:
                loss = self._loss(pixels, labels)
            with backward:
                loss.backward()
            with step:
                self.optimizer.step()
                self.optimizer.zero_grad(set_to_none=True)
            self.losses.append(loss.detach())  # stays on the device: reading it would wait for it
            clock.end_batch(self.items_per_step)
            self.ended_at.append(perf_counter())
        settle(device)
        return perf_counter() - started

    def step(self, pixels: torch.Tensor, labels: torch.Tensor) -> None:
        """A whole step outside the clock."""
        self.model.train()
        self._loss(pixels.to(self.place.device), labels.to(self.place.device)).backward()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)

    def global_losses(self) -> list[float]:
        """The loss of each batch over all ranks: their shares are equal, so their mean is the global batch's."""
        import torch

        losses = torch.stack(self.losses).double().cpu()
        return [float(loss) for loss in self._mean_over_ranks(losses)]

    def validate(self, loader: DataLoader[Any], recorder: Recorder) -> tuple[float, float]:
        """Loss and accuracy on images that were not trained on; every rank takes its share."""
        import torch
        from torch.nn.functional import cross_entropy

        self.model.eval()
        sums = torch.zeros(3, dtype=torch.float64)
        with torch.no_grad(), self.precision:
            for pixels, labels in loader:
                labels = labels.to(self.place.device)
                scores = self.model(pixels.to(self.place.device))
                loss = cross_entropy(scores, labels, reduction="sum")
                sums += torch.tensor([float(loss), float((scores.argmax(1) == labels).sum()), len(labels)],
                                     dtype=torch.float64)
                recorder.alive()
        loss_sum, right, count = self._mean_over_ranks(sums)
        return float(loss_sum / count), float(right / count)

    def _loss(self, pixels: Any, labels: Any) -> Any:
        from torch.nn.functional import cross_entropy

        with self.precision:
            return cross_entropy(self.model(pixels), labels)

    def _mean_over_ranks(self, values: torch.Tensor) -> torch.Tensor:
        import torch

        if self.place.ranks == 1 or not torch.distributed.is_initialized():
            return values
        # NCCL takes tensors of its own device only; float64 there is fine.
        moved = values.to(self.place.device)
        torch.distributed.all_reduce(moved)
        return moved.cpu() / self.place.ranks
