"""How a run that raised is judged: out of memory in every guise, and nothing else, is `oom`."""

from __future__ import annotations

import errno
import mmap
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch._utils import ExceptionWrapper

from engine.home import PROJECT
from engine.run import classify
from engine.sweep import line_of_cells


def raised(action: Callable[[], Any]) -> Exception:
    with pytest.raises(Exception) as caught:  # noqa: PT011
        action()
    return caught.value


def from_a_loader_worker(error: Exception) -> Exception:
    """As torch's loader hands on what was raised in one of its workers."""
    try:
        raise error
    except Exception:
        return raised(ExceptionWrapper(where="in DataLoader worker process 0").reraise)


def raise_cuda_out_of_memory() -> None:
    raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB. GPU 0 has a total capacity of "
                                 "15.89 GiB of which 14.36 GiB is free.\nSee documentation")


# -- out of memory -----------------------------------------------------------------------------------------------------

PETABYTES = 2**55


@pytest.mark.parametrize(("action", "words"), [
    (raise_cuda_out_of_memory, "OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 GiB."),
    (lambda: bytearray(PETABYTES), "MemoryError: no message"),
    (lambda: numpy.ones(PETABYTES, dtype="uint8"), "Unable to allocate 32.0 PiB"),
    (lambda: torch.empty(PETABYTES, dtype=torch.uint8), "DefaultCPUAllocator: can't allocate memory"),
    (lambda: mmap.mmap(-1, PETABYTES), "Cannot allocate memory"),
], ids=["cuda", "python", "numpy", "torch on the host", "the kernel"])
def test_real_faces_of_out_of_memory(action: Callable[[], Any], words: str) -> None:
    status, reason = classify(raised(action))
    assert status == "oom"
    assert words in reason
    assert "\n" not in reason


@pytest.mark.parametrize("error", [
    RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB"),
    RuntimeError("CUDA error: out of memory\nCUDA kernel errors might be asynchronously reported"),
    torch.AcceleratorError("CUDA error: out of memory"),
    RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
    RuntimeError("HIP out of memory. Tried to allocate 2.00 GiB"),
    OSError(errno.ENOMEM, os.strerror(errno.ENOMEM)),
    OSError(errno.ENOMEM, os.strerror(errno.ENOMEM), "/dev/shm/torch_1"),
    MemoryError(),
], ids=str)
def test_told_faces_of_out_of_memory(error: Exception) -> None:
    assert classify(error)[0] == "oom"


@pytest.mark.parametrize("error", [
    MemoryError("while decoding"), RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory"),
    torch.OutOfMemoryError("CUDA out of memory")])
def test_out_of_memory_in_a_loader_worker(error: Exception) -> None:
    assert classify(from_a_loader_worker(error))[0] == "oom"


def test_kernels_out_of_memory_in_a_loader_worker() -> None:
    assert classify(from_a_loader_worker(OSError(errno.ENOMEM, "Cannot allocate memory")))[0] == "oom"


@pytest.mark.parametrize("word", ["cuDNN error: CUDNN_STATUS_ALLOC_FAILED", "CUSOLVER_STATUS_ALLOC_FAILED"])
def test_failed_allocations_of_the_other_libraries(word: str) -> None:
    assert classify(RuntimeError(word))[0] == "oom"


@pytest.mark.parametrize("word", ["cuFFT error: CUFFT_ALLOC_FAILED", "HIPBLAS_STATUS_ALLOC_FAILED"])
def test_failed_allocations_under_further_names(word: str) -> None:
    assert classify(RuntimeError(word))[0] == "oom"


# -- what only looks like it -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [
    ValueError("this text says out of memory"),
    KeyError("out of memory"),
    FileNotFoundError(errno.ENOENT, "No such file or directory", "/data/out of memory/cat.jpg"),
    OSError(errno.ENOSPC, "No space left on device"),
    OSError(errno.EAGAIN, "Resource temporarily unavailable"),
    RuntimeError("DataLoader worker (pid 7) is killed by signal: Bus error. It is possible that dataloader's workers "
                 "are out of shared memory. Please try to raise your shared memory limit."),
    RuntimeError("CUDA error: an illegal memory access was encountered"),
    RuntimeError("CUDA error: device-side assert triggered"),
    RuntimeError("CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`"),
    RecursionError("maximum recursion depth exceeded"),
    BufferError("memory is in use"),
], ids=str)
def test_what_only_looks_like_out_of_memory_has_failed(error: Exception) -> None:
    assert classify(error)[0] == "failed"


def test_sizes_that_no_machine_could_have_are_mistakes_and_not_out_of_memory() -> None:
    assert classify(raised(lambda: torch.empty(2**62)))[0] == "failed"
    assert classify(raised(lambda: numpy.zeros(2**62)))[0] == "failed"


def test_killed_worker_is_told_apart_from_a_failed_one() -> None:
    for text in ("DataLoader worker (pid 123) is killed by signal: Killed. Details are lost",
                 "DataLoader worker (pid(s) 123, 124) exited unexpectedly"):
        status, reason = classify(RuntimeError(text))
        assert status == "killed"
        assert reason.startswith("a loader worker was killed: DataLoader worker (pid")
    status, _ = classify(RuntimeError("DataLoader worker (pid 123) is killed by signal: Segmentation fault. "))
    assert status == "failed"


def test_pipe_that_closed_is_a_killed_worker_only_if_one_was_killed() -> None:
    """A real child, really killed, and not yet collected: asked of a process that has no other children."""
    code = ("import os, signal, subprocess, sys\nfrom engine.run import classify\n"
            "child = subprocess.Popen(['sleep', '60'])\nos.kill(child.pid, int(sys.argv[1]))\n"
            "status, reason = classify(ConnectionResetError('the pipe closed'))\n"
            "child.wait()\nprint(status, str(child.pid) in reason)\n"
            "print(*classify(EOFError()))\n")
    for number, expected in [(signal.SIGKILL, "killed True"), (signal.SIGTERM, "failed False")]:
        done = subprocess.run([sys.executable, "-c", code, str(int(number))], cwd=PROJECT, capture_output=True,
                              text=True, check=True)
        assert done.stdout.splitlines() == [expected, "failed EOFError: no message"]


# -- reasons -----------------------------------------------------------------------------------------------------------


@given(st.text(max_size=40))
def test_reason_is_one_line_with_the_kind_of_error(text: str) -> None:
    status, reason = classify(ValueError(text))
    assert status == "failed"
    assert reason.startswith("ValueError: ")
    assert len(reason.splitlines()) == 1
    assert reason != "ValueError: "


def test_reason_of_a_loader_workers_error_is_what_it_said() -> None:
    error = from_a_loader_worker(FileNotFoundError(errno.ENOENT, "No such file or directory", "cat.jpg"))
    assert "No such file or directory: 'cat.jpg'" in classify(error)[1]


def test_reason_of_a_loader_workers_long_error_is_its_beginning() -> None:
    error = from_a_loader_worker(ValueError("the image is broken\nand the second line says more"))
    assert "the image is broken" in classify(error)[1]


# -- lines of cells ----------------------------------------------------------------------------------------------------

ASKED = st.dictionaries(st.sampled_from(["model", "workers", "seed", "data"]),
                        st.none() | st.integers(0, 3) | st.text(max_size=3))


@given(ASKED, ASKED, st.integers(1, 9), st.integers(1, 9))
def test_line_is_all_but_the_batch_size(some: dict[str, Any], other: dict[str, Any], size: int, another: int) -> None:
    line, found = line_of_cells({"batch_size": size, **some})
    again, found_again = line_of_cells({**dict(reversed(other.items())), "batch_size": another})
    assert (found, found_again) == (size, another)
    assert (line == again) is (some == other)


def test_experiment_without_a_batch_size_has_lines_without_one() -> None:
    assert line_of_cells({"model": "bert"})[1] is None
    assert line_of_cells({"model": "bert"})[0] != line_of_cells({"model": "roberta"})[0]
