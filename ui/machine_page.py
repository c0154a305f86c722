"""The parts of the Machine page: how quiet it is, its devices, what is missing, what the lab has on disk."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pandas as pd
import streamlit as st

from analysis.quietness import NOISY_SPREAD, QUIET_SPREAD, Part, Quietness, assess, percent
from ui.figure import draw_figure
from ui.frame import safe
from ui.noise_chart import DrawnPart, noise_strip, slower_than_drawn
from ui.units import metric_amount, seconds, size

if TYPE_CHECKING:
    from engine.caches import CacheEntry
    from engine.disk_use import Use
    from engine.noise_check import NoiseCheck

UNKNOWN = "not available"
PROBLEMS_SHOWN = 3
LIMITS = (f"Quiet: blocks of equal work vary by up to {percent(QUIET_SPREAD)}. Usable with repeats: up to "
          f"{percent(NOISY_SPREAD)}. Noisy: more, or what would mark a run noisy. A few seconds cannot see what "
          "changes over minutes, and memory, disk and GPU are not loaded.")


def draw_facts(report: Mapping[str, Any]) -> None:
    with st.container(horizontal=True):
        st.metric("Cores for the lab", f"{report['cores_allowed']:g}", border=True)
        st.metric("Memory for the lab", size(report["memory_limit_bytes"]), border=True)
        st.metric("GPUs", len(report["gpus"]), border=True)
        st.metric("Free disk", size(report["free_disk_bytes"]), border=True)


# -- the noise check ---------------------------------------------------------------------------------------------------


def draw_quietness(check: NoiseCheck | None, hostname: str) -> None:
    if check is None:
        st.markdown("Not checked yet. The check runs a small fixed load on one core and then on all, and says how "
                    "small a difference between two cells this machine can show.")
        return
    found = assess([Part(part.name, part.tracks) for part in check.parts], check.others_cpu_cores, check.steal_share,
                   check.cores_allowed, check.gpu_busy)
    say = {"quiet": st.success, "usable with repeats": st.info, "noisy": st.warning}[found.verdict]
    icon = {"quiet": ":material/check_circle:", "usable with repeats": ":material/replay:",
            "noisy": ":material/graphic_eq:"}[found.verdict]
    say(f"**{found.verdict.capitalize()}.** {safe(found.meaning)}", icon=icon)
    where = "" if check.hostname == hostname else f" on another machine ({safe(check.hostname)})"
    st.caption(f"Checked {safe(describe_moment(check.checked_at))}{where}, {seconds(check.seconds)} long. "
               + safe("".join(f"{_capital(reason)}. " for reason in found.reasons)))
    draw_few_numbers(check, found)
    drawn = [DrawnPart(_capital(part.name), part.start_s, part.tracks, spread.median_s)
             for part, spread in zip(check.parts, found.parts, strict=True)]
    beyond = slower_than_drawn(drawn)
    draw_figure(f"**{found.verdict.capitalize()}**: blocks of equal work differ by {percent(found.block_spread)}.",
                noise_strip(drawn), pieces_frame(check), "noise_check",
                "Each point is the same piece of work; lines are the means of the blocks the verdict is made from."
                + (f" {beyond:,} slower pieces are at the upper edge." if beyond else ""))
    with st.expander("All numbers of this check"):
        st.table(spread_table(check, found), border="horizontal")
    st.caption(safe(LIMITS))


def draw_few_numbers(check: NoiseCheck, found: Quietness) -> None:
    slow, pieces = sum(part.slow_pieces for part in found.parts), sum(part.pieces for part in found.parts)
    others, stolen = check.others_cpu_cores, check.steal_share
    with st.container(horizontal=True):
        st.metric("Block to block", percent(found.block_spread), border=True,
                  help="Standard deviation of the means of blocks of equal work, over the median; the worse half.")
        st.metric("Interrupted pieces", f"{slow:,} of {pieces:,}", border=True,
                  help="Pieces that took more than 1.5 times the median.")
        st.metric("Slowest piece", f"{max(part.worst for part in found.parts):.1f} × median", border=True)
        st.metric("Other work", UNKNOWN if others is None else f"{others:.2f} cores", border=True,
                  help="Cores kept busy by other processes during the check; in a container those of the host.")
        st.metric("Stolen time", UNKNOWN if stolen is None else percent(stolen), border=True,
                  help="Share of CPU time that the hypervisor gave to other machines.")
    st.markdown("**Smallest difference between two cells that repeats could show**")
    with st.container(horizontal=True):
        for repeats, share in found.shown.items():
            st.metric(f"{repeats} repeats per cell", percent(share), border=True)
    st.caption("Found in 80 of 100 tries by a t test at 5 %, if runs vary as the blocks did. Real runs vary in more "
               "ways: read it as a floor.")


def pieces_frame(check: NoiseCheck) -> pd.DataFrame:
    """Every piece of the check, also those that the chart leaves out."""
    return pd.DataFrame([(part.name, process, piece, took) for part in check.parts
                         for process, track in enumerate(part.tracks, 1) for piece, took in enumerate(track, 1)],
                        columns=["load", "process", "piece", "seconds"])


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def spread_table(check: NoiseCheck, found: Quietness) -> pd.DataFrame:
    """One column per part; a fact of the whole check stands in the first."""
    columns: dict[str, list[str]] = {}
    for part, spread in zip(check.parts, found.parts, strict=True):
        columns[_capital(part.name)] = [
            seconds(spread.median_s), f"−{percent(spread.low)} to +{percent(spread.high)}", percent(spread.quartiles),
            f"{spread.worst:.1f} × median", f"{spread.slow_pieces:,} of {spread.pieces:,}",
            seconds(spread.longest_slow_s) if spread.slow_pieces else "none", f"{part.preemptions:,} times",
            ("−" if spread.drift < 0 else "+") + percent(spread.drift),
            f"{percent(spread.piece_spread)}, {percent(spread.short_spread)}, {percent(spread.block_spread)}"]
    block = seconds(found.parts[0].block_s)
    short = seconds(found.parts[0].block_s / 5)
    names = ["Piece, median", "5 % to 95 % of pieces", "Middle half spans", "Slowest piece", "Interrupted pieces",
             "Longest interruption", "Preempted", "Drift, last to first third",
             f"Spread over a piece, {short}, {block}"]
    table = pd.DataFrame(columns, index=pd.Index(names, name="The same work"))
    whole = {
        "Cores busy with other work": UNKNOWN if check.others_cpu_cores is None else f"{check.others_cpu_cores:.2f}",
        "Stolen by other machines": UNKNOWN if check.steal_share is None else percent(check.steal_share),
        "Clock, slowest to fastest core": UNKNOWN if check.frequency_hz is None else
        " to ".join(dict.fromkeys(metric_amount("clock_hz", value) for value in check.frequency_hz)),
    }
    if found.slowdown is not None:
        whole["All cores against one"] = f"{found.slowdown:.2f} × as long"
    for name, value in whole.items():
        table.loc[name] = [value, *[""] * (len(columns) - 1)]
    return table


def describe_moment(moment: str) -> str:
    """The date, and how long ago in the unit that fits."""
    try:
        then = datetime.fromisoformat(moment).astimezone(UTC)
    except ValueError:
        return moment
    minutes = int((datetime.now(UTC) - then).total_seconds() // 60)
    ago = next((f"{minutes // length} {unit}{'s' if minutes // length != 1 else ''} ago"
                for length, unit in ((1440, "day"), (60, "hour"), (1, "minute")) if minutes >= length), "just now")
    return f"{then:%Y-%m-%d %H:%M} UTC, {ago}"


# -- devices and what is missing ---------------------------------------------------------------------------------------


def draw_devices(report: Mapping[str, Any], gpus: Sequence[Mapping[str, Any]], problems: Sequence[str]) -> None:
    st.subheader("Devices")
    st.table({"Processor": safe(report["cpu"] or UNKNOWN), "NVIDIA driver": safe(report["driver"] or "none"),
              "CUDA of the driver": safe(report["cuda_driver"] or "none")}, border="horizontal")
    if gpus:
        st.dataframe(gpu_table(gpus), hide_index=True, alt="GPUs with their memory, use, power, temperature and clock")
        st.caption("Busy is the share of time in which some kernel ran, however small: it is not efficiency.")
    for problem in problems:
        st.caption(safe(problem))


def gpu_table(gpus: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """What NVML does not tell is "not available", never 0."""
    def told(gpu: Mapping[str, Any], metric: str) -> str:
        return UNKNOWN if gpu.get(metric) is None else metric_amount(metric, gpu[metric])

    return pd.DataFrame([{
        "GPU": f"{gpu['index']}: {gpu['name']}", "Memory": told(gpu, "memory_total_bytes"),
        "In use": told(gpu, "gpu_memory_used_bytes"), "Busy": told(gpu, "gpu_utilization"),
        "Power": told(gpu, "power_watts"), "Temperature": told(gpu, "temperature_celsius"),
        "Clock": told(gpu, "sm_clock_hz")} for gpu in gpus])


def draw_missing(missing: Sequence[str]) -> None:
    st.subheader("What is missing")
    if not missing:
        st.markdown(":material/check_circle: Nothing: everything the lab can measure can be measured here.")
    for sentence in missing:
        what, _, remedy = sentence.partition("; ")
        with st.container(border=True):
            st.markdown(f":material/info: {safe(_capital(what))}")
            if remedy:
                st.caption(code_as_code(_capital(remedy)))


def code_as_code(text: str) -> str:
    """Commands between backticks stay commands; all else is plain text."""
    parts = text.split("`")
    return "".join(f"`{part}`" if at % 2 and at < len(parts) - 1 else safe(part) for at, part in enumerate(parts))


def draw_versions(report: Mapping[str, Any]) -> None:
    with st.expander(f"Versions: Python {report['python']}, torch {report['libraries'].get('torch') or 'missing'}"):
        st.table({"Python": report["python"], **{name: version or "not installed" for name, version in
                                                 report["libraries"].items()}}, border="horizontal")


# -- what the lab has on disk ------------------------------------------------------------------------------------------


def draw_disk(uses: Mapping[str, Use], free_bytes: int, home: str) -> None:
    st.subheader("Disk")
    rows = {name: [size(use.size_bytes), f"{use.files:,}"] for name, use in uses.items()}
    rows["Free on this disk"] = [size(free_bytes), ""]
    st.table(pd.DataFrame.from_dict(rows, orient="index", columns=["Size", "Files"]), border="horizontal")
    st.caption(f"In {safe(home)}. Journals are the evidence; only erasing what you deleted removes any. "
               "The store can be made again from them with `python lab.py rebuild`.")


def draw_caches(entries: Sequence[CacheEntry], viewer: bool, clean: Callable[[str], None]) -> None:
    st.subheader("Caches")
    if not entries:
        st.markdown("Empty. Generated images and downloads are kept here once a sweep or a person asks for them.")
    for entry in entries:
        with st.container(border=True):
            what, how_much, action = st.columns([5, 2, 2], vertical_alignment="center")
            with what:
                st.markdown(f"**{safe(entry.title)}** · {safe(entry.name)}")
                st.caption(safe(entry.again))
            with how_much:
                st.markdown(size(entry.size_bytes))
                st.caption(f"{entry.files:,} file{'s' if entry.files != 1 else ''}")
            with action:
                draw_clean(entry, viewer, clean)


def draw_clean(entry: CacheEntry, viewer: bool, clean: Callable[[str], None]) -> None:
    if entry.kept_because:
        st.caption(safe(entry.kept_because))
    elif st.button("Clean", key=f"ask {entry.name}", disabled=viewer, help="Asks before it removes"):
        ask_first(entry, clean)


# A dialog and not a popover: an open popover stays at its place, and after a removal that place is the next entry's.
@st.dialog("Remove from the cache?")
def ask_first(entry: CacheEntry, clean: Callable[[str], None]) -> None:
    st.markdown(f"**{safe(entry.title)}**, {size(entry.size_bytes)} in {entry.files:,} "
                f"file{'s' if entry.files != 1 else ''}.")
    st.caption(f"{safe(entry.again)}. Measurements are not touched.")
    if st.button(f"Remove {size(entry.size_bytes)}", key=f"clean {entry.name}", type="primary", on_click=clean,
                 args=(entry.name,)):
        st.rerun()


def draw_rows(counts: Mapping[str, int]) -> None:
    filled = {table.replace("_", " "): f"{count:,}" for table, count in counts.items() if count}
    with st.expander(f"Rows in the store: {sum(counts.values()):,} in {len(filled)} tables"):
        if filled:
            st.table(filled, border="horizontal")


def draw_problems(problems: Sequence[Mapping[str, Any]]) -> None:
    st.subheader("Journal problems")
    if not problems:
        st.markdown(":material/check_circle: None: every journal was read whole.")
    for problem in problems[:PROBLEMS_SHOWN]:
        unread = f" ({size(problem['unread_bytes'])} not read)" if problem["unread_bytes"] else ""
        st.warning(f"{safe(problem['journal'])}: "
                   f"{safe(problem['problem'] or 'its end was torn off when its writer died')}{unread}")
    if len(problems) > PROBLEMS_SHOWN:
        st.caption(f"And {len(problems) - PROBLEMS_SHOWN:,} more; `python lab.py doctor` lists all.")
