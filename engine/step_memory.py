"""Memory by category, operator by operator, on real tensors or on fake ones that hold nothing.

torch's MemTracker does the same for every module besides; on RevNet-18 that takes it 14 s for two steps, and it counts
an optimiser's temporaries as its state. This one looks at storages only. What an operator allocates and frees inside
itself is not seen, but for the largest known case: the backward pass of grouped convolutions on a CPU.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import torch

CATEGORIES = ("parameters", "buffers", "gradients", "optimizer_state", "activations", "temporaries")
CUDA_BLOCK_BYTES = 512
"""CUDA's allocator hands out multiples of this."""


class Moment(NamedTuple):
    """What was held after an operator, by category in the order of CATEGORIES; `at` is perf_counter's."""

    at: float
    held_bytes: tuple[int, ...]

    @property
    def total_bytes(self) -> int:
        return sum(self.held_bytes)


class StepMemory:
    """The storages alive now, each in one category."""

    def __init__(self) -> None:
        self.moments: list[Moment] = []
        self.making = "activations"
        """The category of what operators make now, unless they run again inside backward."""
        self.saved_bytes: int | None = None
        """Activations held when the last forward pass had ended, the batch among them: what backward needs."""
        self._alive: dict[int, tuple[Any, int, str]] = {}
        self._held = dict.fromkeys(CATEGORIES, 0)

    def count(self, tensor: Any, category: str) -> None:
        """Put a tensor's storage into a category; one that was known changes over."""
        storage = tensor.untyped_storage()
        key = storage._cdata
        if key in self._alive:
            reference, size, before = self._alive[key]
            if before != category:
                self._held[before] -= size
                self._held[category] += size
                self._alive[key] = reference, size, category
            return
        size = storage.nbytes()
        if tensor.device.type == "cuda":
            size = -(-size // CUDA_BLOCK_BYTES) * CUDA_BLOCK_BYTES
        self._alive[key] = weakref.ref(storage, lambda _: self._gone(key)), size, category
        self._held[category] += size

    def count_new(self, tensor: Any) -> None:
        import torch

        if tensor.untyped_storage()._cdata in self._alive:
            return
        # Gradients are recorded inside backward only while something is computed again.
        again = self.making == "temporaries" and torch.is_grad_enabled()
        self.count(tensor, "activations" if again else self.making)

    def _gone(self, key: int) -> None:
        _, size, category = self._alive.pop(key)
        self._held[category] -= size

    def end_forward(self) -> None:
        self.saved_bytes = self._held["activations"]
        self.making = "temporaries"

    def mark(self, workspace_bytes: int = 0) -> None:
        """Note what is held now; a workspace was held beside it a moment ago, and counts as a temporary."""
        if workspace_bytes:
            self._held["temporaries"] += workspace_bytes
            self.mark()
            self._held["temporaries"] -= workspace_bytes
        held = tuple(self._held.values())
        if not self.moments or self.moments[-1].held_bytes != held:
            self.moments.append(Moment(perf_counter(), held))

    @property
    def peak(self) -> Moment:
        return max(self.moments, key=lambda moment: moment.total_bytes)


@contextmanager
def watch_memory(model: torch.nn.Module, optimizer: torch.optim.Optimizer,
                 *inputs: torch.Tensor) -> Iterator[StepMemory]:
    """Watch steps of training. Inputs count as activations: they are kept for backward like these."""
    memory = StepMemory()
    for parameter in model.parameters():
        memory.count(parameter, "parameters")
        if parameter.grad is not None:
            memory.count(parameter.grad, "gradients")
    for buffer in model.buffers():
        memory.count(buffer, "buffers")
    for tensor in inputs:
        memory.count(tensor, "activations")
    _count_state(memory, optimizer)
    hooks = [parameter.register_post_accumulate_grad_hook(lambda owner: memory.count(owner.grad, "gradients"))
             for parameter in model.parameters() if parameter.requires_grad]
    hooks.append(optimizer.register_step_post_hook(lambda *_: _count_state(memory, optimizer)))
    memory.mark()
    try:
        with _watching_mode()(memory):
            yield memory
    finally:
        for hook in hooks:
            hook.remove()


def _count_state(memory: StepMemory, optimizer: Any) -> None:
    import torch

    for state in optimizer.state.values():
        for value in state.values():
            if isinstance(value, torch.Tensor):
                memory.count(value, "optimizer_state")


def watched_step(memory: StepMemory, model: Any, optimizer: Any, inputs: Any, labels: Any, precision: Any) -> None:
    """One whole step; the forward pass makes activations, the rest temporaries."""
    from torch.nn import functional

    optimizer.zero_grad(set_to_none=True)
    memory.making = "activations"
    with precision:
        loss = functional.cross_entropy(model(inputs), labels)
    memory.end_forward()
    loss.backward()
    optimizer.step()
    del loss
    memory.mark()


def _workspace_bytes(args: Any) -> int:
    """oneDNN copies input and output gradient of a grouped (depthwise) convolution into its own layout during the
    backward pass, as the profiler's memory events show; for mobilenet_v2 under checkpointing that is the peak."""
    d_output, inputs, groups = args[0], args[1], args[-2]
    if inputs.device.type != "cpu" or groups == 1:
        return 0
    return int(d_output.untyped_storage().nbytes() + inputs.untyped_storage().nbytes())


@cache
def _watching_mode() -> Any:
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils._pytree import tree_leaves

    convolution_backward = torch.ops.aten.convolution_backward.default

    class Watching(TorchDispatchMode):  # type: ignore[misc]
        def __init__(self, memory: StepMemory) -> None:
            super().__init__()
            self.memory = memory

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            made = func(*args, **(kwargs or {}))
            if isinstance(made, torch.Tensor):
                self.memory.count_new(made)
            elif made is not None:
                for tensor in tree_leaves(made):
                    if isinstance(tensor, torch.Tensor):
                        self.memory.count_new(tensor)
            self.memory.mark(_workspace_bytes(args) if func is convolution_backward else 0)
            return made

    return Watching
