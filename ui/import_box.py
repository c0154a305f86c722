"""Measurements made elsewhere on their way in, as CSV or as a bundle: what would be imported is shown before it is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import pandas as pd
import streamlit as st

from engine.params import InputError
from ui.frame import safe

PREVIEW_ROWS = 5
MIB = 2**20


class Actions(NamedTuple):
    """What the page does for the box: `read` checks a file, `bring_in` imports it and returns whether it did."""

    read: Callable[[bytes, str, str], Any]
    bring_in: Callable[[bytes, str, str, str], Any]
    most_bytes: int
    read_bundle: Callable[[bytes, str], Any]
    bring_in_bundle: Callable[[bytes, str], Any]


def draw_import(experiments: Sequence[str], disabled: bool, actions: Actions) -> None:
    version = st.session_state.setdefault("import_version", 0)
    with st.popover("Import", icon=":material/upload_file:", disabled=disabled,
                    help="Measurements made elsewhere: a bundle of another lab, or CSV with one row per run"):
        st.caption("A **bundle** is a sweep of another lab, exported there. **CSV** has one row per run: columns named "
                   "like the experiment's parameters, measured columns that end in _s, _bytes or _per_s, such as "
                   "end_to_end_s or load_data_s. Rows of the same parameters are repeats.")
        start = experiments.index("inference") if "inference" in experiments else 0
        experiment = st.selectbox("Experiment", experiments, index=start, key="import_experiment", disabled=disabled)
        file = st.file_uploader("Bundle or CSV file", type=["csv", "zip"], key=f"import_file_{version}",
                                disabled=disabled, max_upload_size=actions.most_bytes // MIB)
        if file is None or not experiment:
            return
        content = file.getvalue()
        if content.startswith(b"PK"):
            if _draw_bundle(content, file.name, disabled, actions):
                st.session_state["import_version"] += 1
                st.rerun()
            return
        try:
            found = actions.read(content, file.name, experiment)
        except InputError as error:
            st.error(safe(error))
            return
        _draw_preview(found)
        name = st.text_input("Name", key=f"import_name_{version}", max_chars=200, disabled=disabled,
                             placeholder=f"imported: {file.name}")
        if st.button(f"Import {len(found.rows):,} runs" if len(found.rows) > 1 else "Import 1 run", type="primary",
                     key="import_do", disabled=disabled) and actions.bring_in(content, file.name, experiment, name):
            st.session_state["import_version"] += 1  # an empty box for the next file
            st.rerun()


def _draw_bundle(content: bytes, source: str, disabled: bool, actions: Actions) -> bool:
    """Whether it was imported."""
    try:
        manifest = actions.read_bundle(content, source)
    except InputError as error:
        st.error(safe(error))
        return False
    runs = ", ".join(f"{count:,} {status}" for status, count in manifest.runs.items())
    st.markdown(f"**{safe(manifest.name or manifest.sweep_id)}** · {safe(manifest.experiment)} · {safe(runs)}")
    return st.button("Import this bundle", type="primary", key="import_do", disabled=disabled) \
        and bool(actions.bring_in_bundle(content, source))


def _draw_preview(found: Any) -> None:
    cells = len({row.cell.key for row in found.rows})
    st.markdown(f"**{len(found.rows):,} runs of {cells:,} cells.** Parameters: "
                f"{safe(', '.join(found.parameters) or 'none given, all at their default')}. "
                f"Measured: {safe(', '.join(found.measured))}.")
    rows = [{"line": row.line, **{name: str(getattr(row.cell.params, name)) for name in found.parameters},
             "repeat": row.repeat, **{name: row.figures.get(name) for name in found.measured}}
            for row in found.rows[:PREVIEW_ROWS]]
    st.dataframe(pd.DataFrame(rows), hide_index=True, height="content", alt="The first rows of the file as understood")
    if len(found.rows) > PREVIEW_ROWS:
        st.caption(f"The first {PREVIEW_ROWS} rows. All of them were checked.")
