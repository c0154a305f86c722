"""Parameters of an experiment: typed, bounded, with title, help and unit; and the sentences for wrong ones.

Importable without torch: forms, the command line, YAML files and docs are all drawn from here.
"""

from __future__ import annotations

import difflib
import hashlib
import json
from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.fields import FieldInfo


class InputError(ValueError):
    """Something a person asked for that cannot be: one sentence with the name, the value and the next move."""


def setting(default: Any, *, title: str, help: str, unit: str | None = None, **bounds: Any) -> Any:
    """A field of Params. `bounds` are pydantic's ge, le, max_length; `unit` is shown beside the input."""
    return Field(default, title=title, description=help, json_schema_extra={"unit": unit} if unit else None, **bounds)


class Params(BaseModel):
    """What every experiment can be asked for. Strict: `true` is not 1, and "32" is not 32."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    threads: int | None = setting(
        None, title="Torch threads", unit="threads", ge=1, le=1024,
        help="Threads that torch computes with inside the run. Empty: torch's own choice, recorded as in effect.",
    )
    seed: int = setting(0, title="Seed", ge=0, le=2**31 - 1, help="Seeds weights and data order.")


def cell_key(experiment: str, params: Params) -> str:
    """The same cell has the same key in every sweep and on every machine.

    Values equal to their default are left out, so that a parameter added later (whose default keeps the old
    behaviour) does not change the keys of old cells. A default must therefore never change its meaning.
    """
    values = params.model_dump(mode="json", exclude_defaults=True)
    text = json.dumps({"experiment": experiment, "params": values}, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def suggestion(word: str, known: list[str]) -> str:
    """`; did you mean batch_size?` or nothing."""
    close = difflib.get_close_matches(word, known, n=1)
    return f"; did you mean {close[0]}?" if close else ""


def allowed_values(field: FieldInfo) -> str:
    """What a field takes, in words: `must be 1 to 65536`."""
    if choices := _choices(field.annotation):
        return "must be one of " + ", ".join(map(str, choices))
    limits = {name: getattr(m, name) for m in field.metadata for name in ("ge", "le", "gt", "lt") if hasattr(m, name)}
    kind = _kind(field.annotation)
    low, high = limits.get("ge", limits.get("gt")), limits.get("le", limits.get("lt"))
    if low is not None and high is not None:
        return f"must be {low} to {high}" + (" (a whole number)" if kind == "whole number" else "")
    if low is not None:
        return f"must be a {kind}, {'at least' if 'ge' in limits else 'more than'} {low}"
    longest = next((m.max_length for m in field.metadata if hasattr(m, "max_length")), None)
    return f"must be a {kind}" + (f" of at most {longest} characters" if longest else "")


def explain(error: ValidationError, model: type[BaseModel], what: str) -> str:
    """The first problem of a validation as one sentence; `what` names the thing that has the fields."""
    problem = error.errors(include_url=False)[0]
    name = str(problem["loc"][0]) if problem["loc"] else ""
    field = model.model_fields.get(name)
    if problem["type"] == "extra_forbidden":
        known = list(model.model_fields)
        return f"{name}: {what} has no such entry{suggestion(name, known)} (it has {', '.join(known)})"
    if problem["type"] == "missing":
        return f"{name}: {what} needs it; {_help(field)}"
    if problem["type"] == "value_error" or field is None:
        text = problem["msg"].removeprefix("Value error, ")
        return f"{name}={shorten(problem['input'])}: {text}" if name else text
    inside = "".join(f"[{part}]" for part in problem["loc"][1:] if isinstance(part, int))
    return f"{name}{inside}={shorten(problem['input'])}: {allowed_values(field)}"


def shorten(value: Any, longest: int = 60) -> str:
    text = value if isinstance(value, str) else json.dumps(value, default=str, ensure_ascii=False)
    return text if len(text) <= longest else text[: longest - 1] + "…"


def _help(field: FieldInfo | None) -> str:
    return (field.description or allowed_values(field)) if field else "give it a value"


def _without_none(annotation: Any) -> Any:
    inner = [part for part in get_args(annotation) if part is not type(None)]
    return inner[0] if type(None) in get_args(annotation) and len(inner) == 1 else annotation


def _choices(annotation: Any) -> tuple[Any, ...]:
    annotation = _without_none(annotation)
    return get_args(annotation) if get_origin(annotation) is Literal else ()


def _kind(annotation: Any) -> str:
    names = {int: "whole number", float: "number", bool: "yes or no: true or false", str: "text", list: "list",
             dict: "mapping"}
    annotation = _without_none(annotation)
    return names.get(get_origin(annotation) or annotation, "value of its kind")
