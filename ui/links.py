"""Choices that live in the link by their own id.

Streamlit's bind="query-params" writes what an option looks like. A sweep's label is its name, which need not be unique,
so links would open the wrong one: here the link holds the id.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import streamlit as st

from ui.figure import say_incomplete, say_replaced

WHY = "deleted, for another question, or from another lab"


def turn_page(title: str) -> None:
    """What was chosen on another page under the same name counts no more: here the link does."""
    if st.session_state.get("page") != title:
        for key in [key for key in st.session_state if str(key).startswith("chose_")]:
            del st.session_state[key]
    st.session_state["page"] = title


def choose(label: str, options: Sequence[str], name: str, show: Callable[[str], str], quiet: bool = False,
           **more: Any) -> str | None:
    """A select box; `name` is the link's parameter. When a link comes with an id that is not among the options, that is
    said: it must not show other numbers than it names without a word. With `quiet` the first option is not written
    into a link that says nothing: each change of a link is a step back in the browser."""
    key, seen = f"choose_{name}", f"chose_{name}"
    asked = st.query_params.get(name)
    if asked in options and (key not in st.session_state or st.session_state.get(seen) != asked):
        st.session_state[key] = asked
    if asked and asked not in options and st.session_state.get(seen) != asked:
        say_replaced(f"{label}: what the link names is not here ({WHY}).",
                     "Nothing is chosen." if more.get("index", 0) is None else "Another one is shown.")
    if key in st.session_state:
        more.pop("index", None)  # Streamlit warns of a beginning that does not count
    chosen: str | None = st.selectbox(label, options, key=key, format_func=_telling(options, show), **more)
    if chosen is None or (quiet and asked not in options and chosen == options[0]):
        st.query_params.pop(name, None)
    elif asked != chosen:
        st.query_params[name] = chosen
    st.session_state[seen] = chosen
    return chosen


def choose_many(label: str, options: Sequence[str], name: str, show: Callable[[str], str], default: Sequence[str],
                follow: bool = False, **more: Any) -> list[str]:
    """Several of the options; the link holds their ids with commas between. Without any in it, the default.

    When nothing of a choice is offered any more it goes back to the default. With `follow` other options do that too:
    a filter that was made for one set would hide without a word what another set has besides.
    """
    key, seen, offered = f"choose_{name}", f"chose_{name}", f"offered_{name}"
    asked = st.query_params.get(name)
    named = [option for option in dict.fromkeys((asked or "").split(",")) if option]
    wanted = [option for option in named if option in options]
    if len(wanted) < len(named) and st.session_state.get(seen) != asked:
        if wanted:
            say_incomplete(f"{label}: {len(named) - len(wanted)} of {len(named)} that the link names are not here "
                           f"({WHY}). The others are shown.")
        else:
            say_replaced(f"{label}: what the link names is not here ({WHY}).", "Another choice is shown.")
    default = [option for option in default if option in options]
    if key not in st.session_state or (wanted and st.session_state.get(seen) != asked):
        st.session_state[key] = wanted or default
    else:
        before = st.session_state[key]
        # What was chosen before and is not offered any more (deleted meanwhile) would stop the widget.
        kept = [option for option in before if option in options]
        changed = follow and set(st.session_state.get(offered, options)) != set(options)
        st.session_state[key] = default if changed or (before and not kept) else kept
    st.session_state[offered] = list(options)
    chosen: list[str] = st.multiselect(label, options, key=key, format_func=_telling(options, show), **more)
    text = ",".join(chosen)
    if text and text != asked:
        st.query_params[name] = text
    elif not text:
        st.query_params.pop(name, None)
    st.session_state[seen] = text
    return chosen


def choose_number(label: str, least: float, most: float, default: float, name: str, **more: Any) -> float:
    """A number that lives in the link. One that no such number can be is dropped: the widget would break on it."""
    try:
        inside = least <= float(st.query_params.get(name, default)) <= most
    except ValueError:
        inside = False
    if not inside:
        st.query_params.pop(name, None)
    if all(isinstance(value, int) for value in (least, most, default)):
        more = {"step": 1.0, "format": "%.0f", **more}
    # As floats: Streamlit seeds the widget from the link as it came, and an infinite whole number breaks it.
    return float(st.number_input(label, float(least), float(most), float(default), key=name, bind="query-params",
                                 **more))


def _telling(options: Sequence[str], show: Callable[[str], str]) -> Callable[[str], str]:
    """Labels that differ: the browser answers with a label, so of two that look alike only one could be chosen."""
    labels = {option: show(option) for option in options}
    count = Counter(labels.values())
    told = {option: text if count[text] == 1 else f"{text} ({option})" for option, text in labels.items()}
    return lambda option: told.get(option, option)
