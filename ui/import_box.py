"""A CSV file of measurements made elsewhere, on its way in: what would be imported is shown before it is."""

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


def draw_import(experiments: Sequence[str], disabled: bool, actions: Actions) -> None:
    version = st.session_state.setdefault("import_version", 0)
    with st.popover("Import CSV", icon=":material/upload_file:", disabled=disabled,
                    help="Measurements made elsewhere: one row per run"):
        st.caption("One row per run. Columns named like the experiment's parameters; measured columns end in _s, "
                   "_bytes or _per_s, such as end_to_end_s or load_data_s. Rows of the same parameters are repeats.")
        start = experiments.index("inference") if "inference" in experiments else 0
        experiment = st.selectbox("Experiment", experiments, index=start, key="import_experiment", disabled=disabled)
        file = st.file_uploader("CSV file", type="csv", key=f"import_file_{version}", disabled=disabled,
                                max_upload_size=actions.most_bytes // MIB)
        if file is None or not experiment:
            return
        content = file.getvalue()
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
