"""A RevNet under DDP: two processes with half a batch each get the gradients of one with the whole."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from engine.home import PROJECT

RANK = """
import sys
import torch
from torch.nn.parallel import DistributedDataParallel
from engine.revnets import build_revnet

rank, file = int(sys.argv[1]), sys.argv[2]
torch.set_num_threads(1)
torch.distributed.init_process_group("gloo", init_method="file://" + file, rank=rank, world_size=2)
torch.manual_seed(0)
model = build_revnet(3, 10).double().eval()  # batch norm with fixed statistics: theirs would be per process
model.reversible = True
pixels = torch.rand(4, 3, 32, 32, dtype=torch.float64)
labels = torch.tensor([1, 2, 3, 4])
torch.nn.functional.cross_entropy(model(pixels), labels).backward()
whole = [parameter.grad.clone() for parameter in model.parameters()]
model.zero_grad(set_to_none=True)
parallel = DistributedDataParallel(model)
mine = slice(2 * rank, 2 * rank + 2)
torch.nn.functional.cross_entropy(parallel(pixels[mine]), labels[mine]).backward()
difference = torch.stack([(p.grad - g).norm() for p, g in zip(model.parameters(), whole)]).norm()
print(float(difference / torch.stack([g.norm() for g in whole]).norm()), flush=True)
torch.distributed.destroy_process_group()
"""


def test_two_processes_get_the_gradients_of_one(tmp_path: Path) -> None:
    ranks = [subprocess.Popen([sys.executable, "-c", RANK, str(rank), str(tmp_path / "meeting")], cwd=PROJECT,
                              env={**os.environ, "OMP_NUM_THREADS": "1"}, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True) for rank in range(2)]
    try:
        said = [rank.communicate(timeout=240) for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()  # one that lost the other would wait for it
            rank.wait()
    assert [rank.returncode for rank in ranks] == [0, 0], said
    assert all(float(out) < 1e-12 for out, _ in said)
