"""Runs: find any run again, open it, tag it, put it away."""

from functools import partial
from io import BytesIO
from typing import Any

import streamlit as st

from begin import begin, toast
from engine.bundle_file import open_bundle
from engine.bundles import BROWSER_UNPACKED_BYTES, bundle_bytes, import_bundle, is_at_rest, too_large_for_browser
from engine.erasing import erase
from engine.importing import import_content
from engine.measurement_file import MOST_BYTES, read_measurements
from engine.params import InputError
from engine.people import annotate, delete
from engine.registry import Broken, find, load_all
from engine.spec import make_spec
from launching import launch_and_watch, without_defaults
from store.browse import (
    Filters,
    annotations_of,
    filter_choices,
    published_frame,
    run_as_sweep,
    runs_frame,
    sweep_of,
)
from store.compaction import compact, list_deleted
from store.database import try_reading
from store.queries import find_run_ids
from ui.edit_bar import ask_before_erase, draw_bundle_button, draw_edit_bar, draw_undo
from ui.frame import draw_compare, empty_state, safe
from ui.import_box import Actions, draw_import
from ui.picking import draw_compare_link
from ui.run_page import draw_run
from ui.runs_table import MOST_ROWS, ROWS_SHOWN, draw_filters, draw_published, draw_table

lab = begin("Runs")
choices = lab.keeper.once("filters", lambda: filter_choices(lab.ask))


def edit(targets: list[str], what: str, value: str) -> None:
    if lab.do(delete if what == "delete" else annotate, lab.home, targets, what, value):
        st.session_state["just_deleted"] = targets if what == "delete" else None
        done = {"tag": "Tagged", "untag": "Tag taken away", "note": "Note kept", "archive": "Archived",
                "unarchive": "Taken out of the archive", "delete": "Deleted", "restore": "Restored"}[what]
        toast(f"{done}.", ":material/check:")
        # A new table: the old one's ticks would now be on other runs.
        st.session_state["table_version"] = st.session_state.get("table_version", 0) + 1


def erase_deleted() -> None:
    st.session_state["just_deleted"] = None
    lab.do(lab.keeper.exclusively, lambda cursor: compact(cursor, lab.home, erase))


def bring_in(content: bytes, source: str, experiment: str, name: str) -> bool:
    done = lab.do(import_content, lab.home, content, source, experiment, name, say=st.error)
    if done:
        st.query_params.from_dict({"sweep": done[0]})
        toast(f"{done[1]:,} runs imported.", ":material/check:")
    return bool(done)


def look_into(content: bytes, source: str) -> Any:
    with open_bundle(BytesIO(content), source, BROWSER_UNPACKED_BYTES) as bundle:
        return bundle.manifest


def bring_in_bundle(content: bytes, source: str) -> bool:
    done = lab.do(import_bundle, lab.home, BytesIO(content), source, try_reading, BROWSER_UNPACKED_BYTES, say=st.error)
    if done:
        st.query_params.from_dict({"sweep": done.sweep_id})
        toast(safe(done.sentence), ":material/check:")
    return bool(done)


IMPORTING = Actions(lambda content, source, name: read_measurements(content, source, find(name)), bring_in, MOST_BYTES,
                    look_into, bring_in_bundle)


def open_run(run_id: str) -> None:
    st.query_params["run"] = run_id


def again_as_sweep(run_id: str) -> dict[str, Any] | None:
    """None when its experiment or a parameter is not there any more."""
    try:
        asked = run_as_sweep(lab.ask, run_id)
        return without_defaults(asked) if asked else None
    except InputError:
        return None


def draw_one(run_id: str) -> None:
    with st.container(horizontal=True, vertical_alignment="center"):
        if st.button("All runs", icon=":material/arrow_back:"):
            del st.query_params["run"]
            st.rerun()
        about = annotations_of(lab.ask, run_id) | {"sweep": sweep_of(lab.ask, run_id)}
        again = again_as_sweep(run_id)
        if again and st.button("Run this again", icon=":material/replay:", disabled=lab.viewer):
            launch_and_watch(lab, make_spec(again))
        st.page_link("pages/Launch.py", label="Change it and launch", icon=":material/edit:",
                     query_params={"from_run": run_id})
        draw_compare([run_id.rsplit("-", 1)[0]], "Compare its cell")
        shown = next((state for state in ("erased", "deleted", "archived") if about[state]), "current")
        draw_edit_bar([run_id], "this run", shown, choices["tags"], about["note"], lab.viewer, edit, "one")
    draw_undo(edit)
    draw_run(lab.ask, run_id, lab.home.sweep(run_id.rsplit("-", 2)[0]), about, again)


def draw_all() -> None:
    filters: Filters = draw_filters(choices)
    if filters.shown == "published":
        draw_published(published_frame(lab.ask))
        return
    draw_undo(edit)
    frame, total = runs_frame(lab.ask, filters, ROWS_SHOWN)
    if total > len(frame) and st.toggle(f"Show all {total:,}", key="all", bind="query-params"):
        frame, total = runs_frame(lab.ask, filters, MOST_ROWS)
    bar = st.container(horizontal=True, vertical_alignment="center")
    with bar:
        known = [name for name, entry in load_all().items() if not isinstance(entry, Broken)]
        draw_import(known, lab.viewer, IMPORTING)
    if frame.empty:
        empty_state("Nothing here is deleted." if filters.shown == "deleted" else "No run fits. Change the filters, or "
                    "measure something." if choices["sweeps"] else
                    "Nothing has been measured yet.", "Launch a sweep", "pages/Launch.py")
    selected = [] if frame.empty else draw_table(frame, total)
    with bar:
        if selected:
            what = "1 run" if len(selected) == 1 else f"{len(selected):,} runs"
            st.markdown(f"**{what}**")
            if len(selected) == 1:
                st.button("Open this run", icon=":material/open_in_full:", type="primary", on_click=open_run,
                          args=selected)
            draw_compare_link(selected, len(selected))
            note = annotations_of(lab.ask, selected[0])["note"] if len(selected) == 1 else ""
            draw_edit_bar(selected, what, filters.shown, choices["tags"], note, lab.viewer, edit, "rows")
        elif filters.sweep_id and total:
            st.markdown("**This sweep**")
            st.page_link("pages/Live.py", label="Its result", icon=":material/monitoring:",
                         query_params={"sweep": filters.sweep_id})
            draw_compare([filters.sweep_id], "Compare")
            if is_at_rest(lab.home.sweep(filters.sweep_id)):
                draw_bundle_button(filters.sweep_id, partial(bundle_bytes, lab.home, filters.sweep_id),
                                   too_large_for_browser(lab.home, filters.sweep_id))
            note = annotations_of(lab.ask, filters.sweep_id)["note"]
            draw_edit_bar([filters.sweep_id], "this sweep", filters.shown, choices["tags"], note, lab.viewer, edit,
                          "sweep")
        deleted = list_deleted(lab.ask) if filters.shown == "deleted" else []
        if deleted and st.button("Erase all deleted for good", icon=":material/delete_forever:", disabled=lab.viewer):
            ask_before_erase(len(deleted), erase_deleted)


asked = str(st.query_params.get("run", ""))[:200]
found = find_run_ids(lab.ask, asked) if asked else []
if len(found) == 1:
    draw_one(found[0])
else:
    if asked:
        st.warning("There is no run with this id; here are all of them.")
    draw_all()
