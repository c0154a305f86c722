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

    def __init__(self, sentence: str) -> None:
        super().__init__(_printable(sentence))


def _printable(text: str) -> str:
    """One line that any terminal can show, whatever was in a value: no breaks, half characters or control codes."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def setting(default: Any, *, title: str, help: str, unit: str | None = None, options: list[Any] | None = None,
            folder: bool = False, **bounds: Any) -> Any:
    """A field of Params. `bounds` are pydantic's ge, le, max_length; `unit` is shown beside the input, `options` are
    what a form offers where the type itself does not say; a `folder` may also be the path of one."""
    extra: dict[str, Any] = {name: value for name, value in (("unit", unit), ("options", options), ("folder", folder))
                             if value}
    return Field(default, title=title, description=help, json_schema_extra=extra or None, **bounds)


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
    low, high = limits.get("ge", limits.get("gt")), limits.get("le", limits.get("lt"))
    if "ge" in limits and "le" in limits:
        return f"must be {low} to {high}"
    words = [_kind(field.annotation)]
    if low is not None:
        words.append(f"{'at least' if 'ge' in limits else 'more than'} {low}")
    if high is not None:
        words.append(f"{'at most' if 'le' in limits else 'less than'} {high}")
    longest = next((m.max_length for m in field.metadata if hasattr(m, "max_length")), None)
    if longest is not None:
        words.append(f"at most {longest} {'entries' if words[0].startswith('a list') else 'characters'}")
    return "must be " + ", ".join(words[:2]) + "".join(f" and {word}" for word in words[2:])


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
    value, allowed = problem["input"], allowed_values(field)
    if problem["type"].endswith(("_type", "_from_float")):
        # "32" for 32: without the quotes and the kind the sentence would contradict itself.
        kind = _kind(field.annotation)
        shown = json.dumps(shorten(value), ensure_ascii=False) if isinstance(value, str) else shorten(value)
        return f"{name}{inside}={shown}: {allowed}" + ("" if kind in allowed else f", {kind}")
    return f"{name}{inside}={shorten(value)}: {allowed}"


def shorten(value: Any, longest: int = 60) -> str:
    """A value as it fits into a sentence."""
    try:
        text = value if isinstance(value, str) else json.dumps(value, default=str, ensure_ascii=False, skipkeys=True)
    except (ValueError, TypeError, RecursionError):
        text = f"a {type(value).__name__} that cannot be shown"
    text = _printable(text)
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
    names = {int: "a whole number", float: "a number", bool: "true or false", str: "text", list: "a list",
             dict: "a mapping"}
    annotation = _without_none(annotation)
    return names.get(get_origin(annotation) or annotation, "a value of its kind")
