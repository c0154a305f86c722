"""Forms drawn from Params: any field takes several values, and a wrong one is explained beneath it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple, get_args, get_origin

import streamlit as st
from pydantic.fields import FieldInfo

from engine.params import InputError, allowed_values
from engine.registry import Experiment
from engine.spec import check_value
from ui.frame import safe

COMMON = ("model", "batch_size", "workers", "batches", "images", "image_size", "data", "device", "precision")
"""Fields shown at once; the others are behind "More settings"."""


AUTOMATIC = "automatic"
"""A value left open, where it stands beside others."""


class Filled(NamedTuple):
    """What the form holds: values by field (only those that differ from the default), and sentences by field."""

    values: dict[str, list[Any]]
    problems: dict[str, str]


def draw_form(experiment: Experiment, start: dict[str, list[Any]], version: str, disabled: bool,
              check: Callable[[str, Any], None]) -> Filled:
    """`start` fills the fields (a preset's values); `version` changes when they are to be filled anew.

    `check` raises InputError for a value that is right in itself but not allowed from here.
    """
    filled = Filled({}, {})
    fields = experiment.Params.model_fields
    shown = [name for name in COMMON if name in fields] or list(fields)
    rest = [name for name in fields if name not in shown]
    for place, names in ((st.container(), shown), (st.expander("More settings"), rest)):
        places = place.grid(3, min_column_width=220)
        for name in names:
            with places.cell():
                _draw_field(experiment, name, fields[name], start.get(name), f"{experiment.name}.{name}.{version}",
                            disabled, filled, check)
    return filled


def _draw_field(experiment: Experiment, name: str, field: FieldInfo, start: list[Any] | None, key: str, disabled: bool,
                into: Filled, check: Callable[[str, Any], None]) -> None:
    unit, title = _extra(field, "unit"), field.title or name
    label = f"{title} ({unit})" if unit and unit.lower() != title.lower() else title
    help_text = (f"{field.description or ''}  \nParameter `{name}`, {allowed_values(field)}. "
                 "Several values make a sweep.")
    if options := _options(field):
        default = [_show(value) for value in (start if start is not None else [field.default])]
        open_ended = bool(_extra(field, "folder"))
        chosen = st.multiselect(label, list(dict.fromkeys([*map(_show, options), *default])), default=default, key=key,
                                help=help_text, disabled=disabled, accept_new_options=open_ended)
        known = {_show(option): option for option in options}
        values = [known.get(text, text) for text in chosen]
    else:
        given = start if start is not None else [field.default]
        text = "" if given == [None] else ", ".join(_show(value) for value in given)
        entered = st.text_input(label, value=text, key=key, help=help_text, disabled=disabled, max_chars=4096,
                                placeholder=AUTOMATIC if field.default is None else None)
        values = [None if field.default is None and part.strip() == AUTOMATIC else _read(part)
                  for part in (entered or "").split(",") if part.strip()]
        if not values and field.default is None:
            return
    if not values:
        into.problems[name] = f"{name}: give at least one value"
    try:
        values = [check_value(experiment, name, value) for value in values]
        for value in values:
            check(name, value)
    except InputError as error:
        into.problems[name] = str(error)
    if name in into.problems:
        st.error(safe(into.problems[name]), icon=":material/error:")
    if values != [field.default]:
        into.values[name] = values


def _options(field: FieldInfo) -> list[Any]:
    """Values to choose from: those of a Literal, yes and no, or the ones that the field names."""
    annotation = field.annotation
    if get_origin(annotation) is not Literal:
        inner = [part for part in get_args(annotation) if part is not type(None)]
        annotation = inner[0] if len(inner) == 1 else annotation
    if get_origin(annotation) is Literal:
        return list(get_args(annotation))
    if annotation is bool:
        return [False, True]
    return list(_extra(field, "options") or [])


def _extra(field: FieldInfo, name: str) -> Any:
    return field.json_schema_extra.get(name) if isinstance(field.json_schema_extra, dict) else None


def _show(value: Any) -> str:
    if value is None:
        return AUTOMATIC
    return {True: "yes", False: "no"}.get(value, str(value)) if isinstance(value, bool) else str(value)


def _read(text: str) -> Any:
    """A number where it can be one; the field decides whether that is right."""
    text = text.strip()
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
