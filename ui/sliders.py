"""A number that lives in the link, as a slider over round numbers or, for exact ones, as a box.

The link alone holds the value: a default that follows from another choice moves with it, and a page shows what a fresh
visit to its link shows.
"""

from __future__ import annotations

import math

import streamlit as st


def choose_amount(label: str, least: float, most: float, default: float, name: str, exact: bool,
                  help: str | None = None) -> float:
    """`name` is the link's parameter, which is there only when the value is not the default. A whole `least` means
    whole numbers. What no such number can be is dropped from the link."""
    whole = least == int(least)
    value = _asked(name, least, most, whole)
    if value is None:
        st.query_params.pop(name, None)
        value = default
    key = f"{name}_{'box' if exact else 'slider'}"
    if st.session_state.get(key) != value:
        st.session_state[key] = value
    if exact:
        st.number_input(label, float(least), float(most), key=key, format="%.0f" if whole else "%g", step=1.0,
                        on_change=_write, args=(name, key, default), help=help)
    else:
        options = sorted({*round_numbers(least, most), float(default), value})
        st.select_slider(label, options, key=key, format_func=lambda number: f"{number:,.12g}", on_change=_write,
                         args=(name, key, default), help=help)
    return value


def round_numbers(least: float, most: float) -> list[float]:
    """Those with one digit that matters: steps that look even on a logarithmic scale."""
    powers = range(math.floor(math.log10(least)), math.ceil(math.log10(most)) + 1)
    numbers = [float(f"{digit}e{power}") for power in powers for digit in range(1, 10)]
    return [number for number in numbers if least <= number <= most]


def _asked(name: str, least: float, most: float, whole: bool) -> float | None:
    try:
        value = float(st.query_params.get(name, "nan"))
    except ValueError:
        return None
    if not least <= value <= most:
        return None
    return float(round(value)) if whole else value


def _write(name: str, key: str, default: float) -> None:
    value = st.session_state[key]
    if value == default:
        st.query_params.pop(name, None)
    else:
        st.query_params[name] = f"{value:.15g}"
