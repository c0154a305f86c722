"""Work in a process of its own. A backward pass on fake tensors leaves a process whose forks cannot run one."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from engine.tries import try_alone

PATIENCE_S = 240


def in_child(work: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
    tried = try_alone(partial(work, *arguments, **named), PATIENCE_S, lambda: None)
    assert tried.outcome == "done", tried.reason
    return tried.answer
