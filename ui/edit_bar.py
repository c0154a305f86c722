"""What a person can do to selected runs or a sweep: tag, note, archive, delete (which asks), restore, undo."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import streamlit as st

from ui.downloads import on_demand
from ui.frame import safe

Edit = Callable[[list[str], str, str], Any]
"""Called with targets, what is done (as in engine/people.py) and a value."""


def draw_edit_bar(targets: list[str], what: str, shown: str, known_tags: list[str], note: str, disabled: bool,
                  edit: Edit, key: str) -> None:
    """`what` names the targets for people: "3 runs", "this sweep"."""
    if shown == "erased":
        st.caption("erased: only what its sweep's own journal says is left")
        return
    with st.popover("Tag", icon=":material/sell:", disabled=disabled, key=f"{key}_tag"):
        tag = st.selectbox("Tag", known_tags, index=None, accept_new_options=True, key=f"{key}_tag_value",
                           placeholder="choose one or type a new one")
        with st.container(horizontal=True):
            for label, act in ((f"Tag {what}", "tag"), ("Take the tag away", "untag")):
                st.button(label, disabled=disabled or not tag, on_click=edit, args=(targets, act, tag or ""),
                          key=f"{key}_do_{act}")
    with st.popover("Note", icon=":material/edit_note:", disabled=disabled, key=f"{key}_note"):
        text = st.text_area(f"Note on {what}", value=note, max_chars=20_000,
                            key=f"{key}_note_value_{targets[0]}")
        st.button("Keep the note", on_click=edit, args=(targets, "note", text or ""), key=f"{key}_do_note",
                  disabled=disabled)
    if shown == "deleted":
        st.button("Restore", icon=":material/restore_from_trash:", disabled=disabled, on_click=edit,
                  args=(targets, "restore", ""), key=f"{key}_restore")
        return
    put_away = shown != "archived"
    st.button("Archive" if put_away else "Take out of the archive", icon=":material/archive:", disabled=disabled,
              on_click=edit, args=(targets, "archive" if put_away else "unarchive", ""), key=f"{key}_archive",
              help="Archived runs are kept and hidden from the current ones")
    if st.button("Delete", icon=":material/delete:", disabled=disabled, key=f"{key}_delete"):
        ask_before_delete(targets, what, edit)


@st.dialog("Delete?")
def ask_before_delete(targets: list[str], what: str, edit: Edit) -> None:
    st.markdown(f"{safe(what).capitalize()} will vanish from tables, charts and exports. This can be undone until the "
                "deleted ones are erased.")
    with st.container(horizontal=True):
        if st.button(f"Delete {what}", type="primary", icon=":material/delete:", on_click=edit,
                     args=(targets, "delete", "")):
            st.rerun()  # closes the dialog
        if st.button("Keep"):
            st.rerun()


def draw_bundle_button(sweep_id: str, make: Callable[[], bytes], refusal: str) -> None:
    """A sweep to take away whole; made when it is clicked. `refusal` says why a browser cannot have it."""
    file, kind = f"{sweep_id}.zip", "application/zip"
    st.download_button("Bundle", on_demand(make, file, kind), file, kind, icon=":material/inventory_2:",
                       on_click="ignore", type="tertiary", key="bundle", disabled=bool(refusal),
                       help=refusal or "The whole sweep with its journals, for another lab to import")


def draw_undo(edit: Edit) -> None:
    """After a delete: the way back, until the next thing is done."""
    if last := st.session_state.get("just_deleted"):
        with st.container(border=True, horizontal=True, vertical_alignment="center"):
            st.markdown(f"{len(last)} deleted.")
            st.button("Undo", icon=":material/undo:", on_click=edit, args=(last, "restore", ""), key="undo_delete")


@st.dialog("Erase for good?")
def ask_before_erase(count: int, erase: Callable[[], Any]) -> None:
    st.markdown(f"All {count:,} deleted sweeps and runs are erased with their journals. This cannot be undone.")
    with st.container(horizontal=True):
        if st.button(f"Erase {count:,} for good", type="primary", icon=":material/delete_forever:", on_click=erase):
            st.rerun()
        if st.button("Keep"):
            st.rerun()
