"""The walls between processes: what each kind of process has loaded, asked of real interpreters.
(What a run process has loaded is tested with a real run in test_outcomes.py.)"""

from __future__ import annotations

import subprocess
import sys

from engine.home import PROJECT

APP_SIDE = """
import altair, duckdb, streamlit
import lab
import engine.launch, engine.registry, engine.doctor, store.database, store.queries, store.export, analysis.summary
engine.registry.load_all()
"""
SWEEP_SIDE = """
import engine.sweep, engine.registry
engine.registry.load_all()
"""


def loaded(code: str) -> set[str]:
    """Top-level modules of a fresh interpreter after this code."""
    code += "\nimport sys\nprint(','.join(sorted({name.partition('.')[0] for name in sys.modules})))"
    done = subprocess.run([sys.executable, "-c", code], cwd=PROJECT, capture_output=True, text=True, check=True)
    return set(done.stdout.strip().splitlines()[-1].split(","))


def test_the_app_process_never_loads_torch() -> None:
    assert not loaded(APP_SIDE) & {"torch", "torchvision", "triton"}


def test_the_sweep_process_loads_neither_torch_nor_the_app() -> None:
    assert not loaded(SWEEP_SIDE) & {"torch", "torchvision", "streamlit", "altair", "duckdb", "pyarrow"}


def test_the_wall_is_seen_to_break() -> None:
    """The check can fail: one forbidden import more and it does."""
    assert "torch" in loaded(APP_SIDE + "\nimport torch")
    assert "duckdb" in loaded(SWEEP_SIDE + "\nimport duckdb")
