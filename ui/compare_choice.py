"""What Compare compares, in its link: items and baseline by their ids, and the legend that says what they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd
import streamlit as st

from analysis.comparability import Doubt
from analysis.side_by_side import MOST_GROUPS, Group
from store.compare import MOST_ITEMS, Chosen
from ui.compare_findings import title_of
from ui.compare_names import Name
from ui.figure import say_incomplete
from ui.frame import PAGES, empty_state, safe
from ui.links import choose

ITEMS_PX = 60
LONGEST_LINK = 20_000
VIEW = "compare"
"""What the link calls the view. Not `view`, as on other pages: a widget there would hand its value on to this one."""


def read_items() -> list[str]:
    """The items of the link, as they came: the store says which of them are there."""
    return [item.strip()[:200] for item in str(st.query_params.get("items", ""))[:LONGEST_LINK].split(",")
            if item.strip()]


def draw_choice(chosen: Chosen, sweeps: Mapping[str, str], told: Mapping[str, str], label: str) -> None:
    """A box with everything that is compared; sweeps can be added to it, and each item taken away. `sweeps` are the
    newest ones by id, `told` says what items are."""
    asked = ",".join(chosen.items)
    if st.session_state.get("compared_seen") != asked:
        st.session_state["compared"] = chosen.items
    st.session_state["compared_seen"] = asked
    options = list(dict.fromkeys([*chosen.items, *sweeps]))
    st.multiselect(label, options, key="compared", on_change=_write_items, placeholder="choose sweeps",
                   format_func=lambda item: told.get(item) or sweeps.get(item) or chosen.sweeps.get(item) or item)


def _write_items() -> None:
    items = st.session_state["compared"]
    st.session_state["compared_seen"] = ",".join(items)
    if items:
        st.query_params["items"] = ",".join(items)
    else:
        st.query_params.pop("items", None)


def draw_nothing(chosen: Chosen, sweeps: Mapping[str, str]) -> None:
    """The page without anything to compare."""
    if not sweeps:
        empty_state("Nothing has been measured yet, so there is nothing to compare.", "Launch a sweep",
                    "pages/Launch.py")
        return
    draw_choice(chosen, sweeps, {}, "Sweeps")
    asking = [page.title for page in PAGES if page.group == "Questions"]
    empty_state("Choose sweeps here. Or tick runs on the Runs page and press “Compare”. Or click marks in the charts "
                f"of Home, Live, {', '.join(asking[:-1])} and {asking[-1]}: the way here appears beneath.",
                "Choose runs", "pages/Runs.py", ":material/table_rows:")


def name_missing(unknown: Sequence[str], beyond: int) -> None:
    """A link must not show other numbers than it names without a word."""
    if beyond:
        say_incomplete(f"The link names {MOST_ITEMS + beyond:,} items: the first {MOST_ITEMS} are looked at, "
                       f"{beyond:,} are left out. Name their sweeps instead of their runs.")
    if unknown:
        some = ", ".join(f"`{item[:60].replace('`', '')}`" for item in unknown[:5])
        more = f" and {len(unknown) - 5} more" if len(unknown) > 5 else ""
        say_incomplete(f"Not here: {some}{more}. Deleted, mistyped, or from another lab; the rest is shown.")


def name_left_out(left_out: Sequence[str], what: str) -> None:
    if left_out:
        some = ", ".join(safe(name) for name in left_out[:6])
        more = f" and {len(left_out) - 6} more" if len(left_out) > 6 else ""
        say_incomplete(f"The first {MOST_GROUPS} of {MOST_GROUPS + len(left_out)} {what} are compared. Left out: "
                       f"{some}{more}. Take items away to see them.", st.info)


def choose_baseline(groups: Sequence[Group], names: Sequence[Name]) -> int:
    """Which group the others are set against: pinned in the link by its id."""
    tokens = [group.token for group in groups]
    chosen = choose("Baseline", tokens, "baseline", lambda token: names[tokens.index(token)].full, quiet=True)
    return tokens.index(chosen) if chosen in tokens else 0


def choose_view(views: Sequence[str]) -> str:
    """The first is what a link without a view opens, also when another item has just made another one the first."""
    before = st.session_state.get("views_offered", views)
    if before != views and VIEW not in st.query_params and st.session_state.get(VIEW) == before[0]:
        st.session_state[VIEW] = views[0]
    st.session_state["views_offered"] = views
    default = None if VIEW in st.session_state else views[0]
    return st.segmented_control("View", views, default=default, key=VIEW, bind="query-params", required=True,
                                label_visibility="collapsed") or views[0]


def choose_metric(metrics: Sequence[str]) -> str:
    return choose("Metric", metrics, "metric", title_of, quiet=True) or metrics[0]


def draw_legend(groups: Sequence[Group], names: Sequence[Name], baseline: int) -> None:
    """What the letters stand for."""
    rows = pd.DataFrame([{
        "": name.letter, "What sets it apart": name.label + (" (baseline)" if place == baseline else ""),
        "Sweep": group.first.sweep, "Runs": _count(group), "Measured (UTC)": _when(group),
        "Environment": "imported" if group.first.imported else group.first.environment_id or "unknown"}
        for place, (group, name) in enumerate(zip(groups, names, strict=True))])
    st.dataframe(rows, hide_index=True, height="content", alt="What is compared", column_config={
        "": st.column_config.TextColumn(width=40), "What sets it apart": st.column_config.TextColumn(width="large"),
        "Sweep": st.column_config.TextColumn(width="medium")})


def _count(group: Group) -> str:
    words = f"{len(group.runs)}, {group.noisy_runs} of them noisy" if group.noisy_runs else str(len(group.runs))
    return words + (f"; {len(group.lost)} more without figures" if group.lost else "")


def _when(group: Group) -> str:
    moments = sorted(run.started_at for run in (*group.runs, *group.lost) if run.started_at)
    if not moments:
        return "–"
    first, last = f"{moments[0]:%Y-%m-%d %H:%M}", f"{moments[-1]:%Y-%m-%d %H:%M}"
    return first if first == last else f"{first} to {last[11:] if first[:10] == last[:10] else last}"


def draw_doubts(doubts: Sequence[Doubt]) -> None:
    """What may make the verdicts be about something else comes first and loud, the rest as one quiet list."""
    if grave := tell_care(doubts, "  \n"):
        st.warning(grave)
    if quiet := tell_quietly(doubts):
        st.caption(quiet)


def tell_care(doubts: Sequence[Doubt], between: str = " ") -> str:
    """The grave ones: they go with the figure to boards, slides and files."""
    grave = [safe(doubt.text) for doubt in doubts if doubt.grave]
    return f"**Not comparable without care.** {between.join(grave)}" if grave else ""


def tell_quietly(doubts: Sequence[Doubt]) -> str:
    """The others: they go along in the figure's note."""
    others = [safe(doubt.text) for doubt in doubts if not doubt.grave]
    return f"To know: {' '.join(others)}" if others else ""
