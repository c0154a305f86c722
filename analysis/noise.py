"""Was the machine quiet while a run was measured? Limits are stated here and shown wherever a run is marked."""

from __future__ import annotations

from collections.abc import Mapping

OTHERS_SHARE_LIMIT = 0.15
"""Cores that other processes kept busy, as a share of the cores this run was allowed."""
GPU_BEFORE_LIMIT = 0.05
"""Share of time in which some kernel ran on the run's GPU just before the run began."""
STEAL_SHARE_LIMIT = 0.02
"""Share of CPU time that the hypervisor gave to someone else."""


def judge_noise(means: Mapping[tuple[str, str], float], cores_allowed: float | None,
                gpu_before: Mapping[str, float] | None = None) -> tuple[bool | None, str]:
    """Whether a run is marked noisy, and the sentence that says why. None when nothing was sampled.

    `means` are telemetry means by device and metric, `gpu_before` the utilisation of each GPU before the run.
    """
    for gpu, utilization in (gpu_before or {}).items():
        if utilization > GPU_BEFORE_LIMIT:
            return True, f"{gpu} was {utilization:.0%} busy before the run began (limit {GPU_BEFORE_LIMIT:.0%})"
    others = means.get(("cpu", "others_cpu_cores"))
    steal = means.get(("cpu", "steal_share"))
    if others is not None and cores_allowed and others > OTHERS_SHARE_LIMIT * cores_allowed:
        return True, (f"other processes kept {others:.2f} of {cores_allowed:g} cores busy "
                      f"(limit {OTHERS_SHARE_LIMIT * cores_allowed:.2f})")
    if steal is not None and steal > STEAL_SHARE_LIMIT:
        return True, f"{steal:.1%} of CPU time was stolen by other machines (limit {STEAL_SHARE_LIMIT:.0%})"
    # Not noisy is a finding too: without the cores or the readings nothing was found out.
    judged = steal is not None or (others is not None and cores_allowed)
    return (False if judged else None), ""
