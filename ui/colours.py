"""One fixed colour per phase and per status, everywhere: told apart by colour-blind people, on white and on dark.

The eight hues are those of Okabe and Ito, lightened or darkened where they would vanish on one of the backgrounds.
"""

from __future__ import annotations

PHASES = {
    "load_data": "#e69f00",
    "data_to_device": "#cc79a7",
    "inference": "#0f8fc9",
    "forward": "#0f8fc9",
    "backward": "#009e73",
    "optimizer": "#d55e00",
    "score": "#8c6bb1",
    "consume": "#56b4e9",
    "load_state": "#56b4e9",
    "plan": "#b8a200",
    "prepare model": "#d55e00",
    "prepare data": "#e69f00",
    "unaccounted": "#9aa5b1",
}
STATUSES = {
    "ok": "#009e73", "running": "#0f8fc9", "failed": "#d55e00", "oom": "#cc79a7", "timeout": "#e69f00",
    "killed": "#8c6bb1", "cancelled": "#9aa5b1", "skipped": "#9aa5b1", "missing": "#c9d1d9",
}
ICONS = {
    "ok": ":material/check_circle:", "finished": ":material/check_circle:", "running": ":material/play_circle:",
    "queued": ":material/schedule:", "failed": ":material/error:", "oom": ":material/memory:",
    "timeout": ":material/timer_off:", "killed": ":material/dangerous:", "cancelled": ":material/cancel:",
    "interrupted": ":material/power_off:", "skipped": ":material/skip_next:", "paused": ":material/pause_circle:",
}
MEMORY = {
    "parameters": "#0f8fc9", "buffers": "#56b4e9", "gradients": "#009e73", "optimizer_state": "#8c6bb1",
    "activations": "#e69f00", "temporaries": "#d55e00",
}
"""What memory is held for, from the bottom of the stack to its top."""
METHODS = {"plain": "#7a869a", "checkpoint": "#0f8fc9", "selective": "#009e73", "reversible": "#d55e00"}
NEUTRAL = "#7a869a"
INK, RIM = "#3a4556", "#ffffff"
"""A line over bars: dark with a light rim is seen on every bar and on the page, light or dark."""
"""Whiskers, rules and shades: visible on white and on dark."""
SERIES = ["#0f8fc9", "#e69f00", "#009e73", "#d55e00", "#8c6bb1", "#cc79a7", "#7a869a", "#56b4e9"]


def phase_scale(phases: list[str]) -> tuple[list[str], list[str]]:
    """Domain and range of a colour scale: a phase of its own choosing gets a colour that stays with its name."""
    return phases, [PHASES.get(phase) or SERIES[sum(phase.encode()) % len(SERIES)] for phase in phases]
