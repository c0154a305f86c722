"""A slide: the finding as a headline, its chart as large as the window lets it, where it comes from in one line."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import streamlit as st

from ui.exhibits import Exhibit, tell_provenance
from ui.figure import END_OF_CARE
from ui.findings import about_batches
from ui.frame import safe
from ui.html_export import as_text
from ui.live_page import CellPicture, Pictures, count_runs
from ui.moving import NAME, Moving
from ui.pictures import DARK, LIGHT, for_slide
from ui.units import seconds

if TYPE_CHECKING:
    from streamlit.delta_generator import DeltaGenerator

WINDOW = """<style>
.stMainBlockContainer { padding: 1.2rem 2.5rem 0.4rem }
.st-key-stage h5 { font-weight: 400 }
[data-stale=true] { opacity: 1 !important }
[data-testid=stHeader] { display: none }
</style>"""
"""A slide has the whole window and does not fade while it is asked for anew; Streamlit has no settings for that."""
CHART_PX, PROGRESS_PX = 550, 70
SLIDE_CELLS = 8
HEAD_PX, HEAD_LETTERS = 45, 66
"""Height of a line of the headline, and how many letters it has at 1280 pixels; then the same for what stands below."""
BELOW_PX, BELOW_LETTERS = 34, 105
BELOW_MOST = 2 * BELOW_LETTERS
NOTE_MOST = 150
"""Letters of what to know about the chart, in the line below it."""
HEAD_MOST = 2 * HEAD_LETTERS
END_OF_THOUGHT = re.compile(r"(?<!\\)(?<!&lt)(?<!&gt)(?<!&amp); ")
END_OF_SENTENCE = re.compile(r"(?<=[^\\][.!?])\s+(?=\S)")


def split_finding(sentence: str) -> tuple[str, str]:
    """The headline and the rest: the first sentence or, when that is long, its first part. A sign in a name is escaped
    and ends nothing, nor does one inside of something bold or in brackets."""
    first, *rest = END_OF_SENTENCE.split(sentence, maxsplit=1)
    if len(as_text(first)) > HEAD_MOST:
        # A semicolon ends a thought; a colon only where enough was said before it.
        cuts = [cut for cut in (*END_OF_THOUGHT.finditer(first), *(
            cut for cut in re.finditer(r"(?<!\\): ", first) if cut.start() > HEAD_LETTERS // 2))
            if _is_whole(first[: cut.start()])]
        if cuts:
            after = first[cuts[0].end():]
            first, rest = first[: cuts[0].start()], [f"{after[:1].upper()}{after[1:]}", *rest]
    return first, " ".join(rest)


def _is_whole(text: str) -> bool:
    """Whether nothing bold and no bracket is left open."""
    plain = re.sub(r"\\.", "", text)
    return plain.count("**") % 2 == 0 and plain.count("(") == plain.count(")")


def cut_note(note: str) -> str:
    """What nobody may miss stays whole."""
    care, _, rest = note.rpartition(END_OF_CARE)
    return " ".join([*([care] if care else []), cut_words(rest, NOTE_MOST)])


def cut_words(text: str, most: int) -> str:
    """As many whole words as there is room for; what is bold there ends there."""
    if len(text) <= most:
        return text
    kept = text[:most].rsplit(" ", 1)[0].rstrip("\\*")
    return kept + ("**" if kept.count("**") % 2 else "") + " …"


def draw_slide(exhibit: Exhibit, note: str) -> None:
    """Below the headline stand a person's note and the rest of the finding."""
    headline, rest = split_finding(exhibit.sentence)
    used = draw_words(headline or safe(exhibit.page), rest, safe(note))
    if exhibit.trouble:
        st.subheader(exhibit.trouble, anchor=False)
    else:
        st.vega_lite_chart(_fit(exhibit.spec, CHART_PX - used), width="stretch", key="slide", alt=exhibit.sentence)


def draw_words(headline: str, *below: str) -> int:
    """What stands below has lines of its own for each text. Returns how many pixels of the chart's room they take."""
    st.header(headline, anchor=False)
    lines = -(-len(as_text(headline)) // HEAD_LETTERS)
    told = [cut_words(" ".join(text.split()), BELOW_MOST) for text in below if text.strip()]
    for text in told:
        st.markdown(f"##### {text}")
    return HEAD_PX * lines + BELOW_PX * sum(-(-len(as_text(text)) // BELOW_LETTERS) for text in told)


def draw_live_slide(pictures: Pictures | None, finished: CellPicture | None) -> None:
    """The sweep that is being measured; when none is, the result of the latest."""
    if pictures is None:
        draw_words("Nothing has been measured yet", "The next sweep appears here by itself.")
        return
    sweep, run = pictures.view.sweep, pictures.view.run
    done, planned = count_runs(sweep)
    name = safe(sweep["name"] or sweep["sweep_id"])
    if run and pictures.batches:
        asked = ", ".join(f"{key} = {value}" for key, value in run["asked"].items())
        used = draw_words(about_batches(pictures.view.batches, "the last"), f"{name}: {safe(asked) or 'defaults only'}")
        chart: Moving | None = pictures.batches
    else:
        headline, rest = split_finding(finished.sentence) if finished else (f"{name}: no result yet", "")
        used = draw_words(headline, rest or name)
        chart = finished.chart if finished else None
    words = [sweep["status"], f"{done} of {planned} runs done"]
    if finished and chart is finished.chart and finished.cells > SLIDE_CELLS:
        words.append(f"drawn are the {SLIDE_CELLS // 2} fastest and the {SLIDE_CELLS // 2} slowest")
    if sweep["status"] == "running" and sweep["wall_s"] and done < planned:
        words.append(f"about {seconds(sum(sweep['wall_s']) / len(sweep['wall_s']) * (planned - done))} left")
    st.markdown(f"##### {' · '.join(words)}")
    st.progress(done / planned)
    if chart:  # rows beside the specification: the browser moves the bars instead of drawing a new chart
        st.vega_lite_chart({**_fit(chart.spec, CHART_PX - PROGRESS_PX - used), "datasets": {NAME: chart.rows}},
                           width="stretch", key="slide", alt="Phases of what is being measured")


def _fit(spec: dict[str, Any], height: int) -> dict[str, Any]:
    return for_slide(spec, height, DARK if st.context.theme.type == "dark" else LIGHT)


def draw_buttons(step: Callable[[int], Any], board_id: str) -> DeltaGenerator:
    """Returns the place behind them. Never disabled, also at the ends: a disabled button would swallow an arrow key
    that is pressed before the next slide is there."""
    row = st.container(horizontal=True, vertical_alignment="center")
    row.button("Previous", shortcut="left", on_click=step, args=(-1,), key="previous")
    row.button("Next", shortcut="right", on_click=step, args=(1,), key="next")
    row.page_link("pages/Boards.py", label="End", icon=":material/close:", query_params={"board": board_id})
    return row.container()


def draw_place(title: str, slide: int, slides: int, exhibit: Exhibit | None) -> None:
    told = tell_provenance(exhibit.sweeps) if exhibit else []
    more = f" and {len(told) - 1} more" if len(told) > 1 else ""
    note = cut_note(exhibit.note) if exhibit else ""
    st.caption(f"{slide} of {slides} · {safe(title)}" + (f" · {safe(told[0])}{more}" if told else "")
               + (f" · {note}" if note else ""))
