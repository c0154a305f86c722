"""Runs of searches as the page compares them."""

from __future__ import annotations

from typing import Any

import pytest

from engine.registry import default_values
from store.strategies import as_search_run


@pytest.mark.parametrize(("taken_over", "resumed"), [
    ({}, False), ({"resumed_models": 0.0, "resumed_items": 0.0}, False), ({"resumed_models": 2.0}, True),
    ({"resumed_models": 0.0, "resumed_items": 40.0}, True)])
def test_a_run_that_took_over_scores_or_features_is_a_resumed_one(taken_over: dict[str, float], resumed: bool) -> None:
    row: dict[str, Any] = {
        "asked": {"strategy": "halving"}, "effective": {"chunk_items": 100}, "environment_id": "e", "noisy": False,
        "phases": {}, "metrics": {"end_to_end_s": 1.0, "block_items": 10.0, "priced_inference_s": 0.5, **taken_over}}
    run = as_search_run(row, default_values("search"))
    assert (run.resumed, run.chunk_items, run.priced_s) == (resumed, 100, 0.5)
