"""The HTML file: whole without a network, harmless whatever names and notes hold, with the provenance of numbers."""

from __future__ import annotations

import io
import json
import re
from html.parser import HTMLParser
from typing import Any

import altair as alt
import pandas as pd
import pytest
from PIL import Image
from streamlit.testing.v1 import AppTest

from ui.exhibits import Exhibit, freeze, tell_provenance, thaw
from ui.frame import safe
from ui.html_export import as_html, as_text, make_html
from ui.pictures import LABEL_LETTERS, LIGHT, SLIDE_LETTERS, SMALLEST_LETTERS, VEGA_LITE, as_png, as_svg, for_slide
from ui.present_page import NOTE_MOST, cut_note, cut_words, split_finding
from ui.specs import make_spec

EVIL = "</script><script>alert('x')</script><img src=x onerror=alert(1)> **b** [a](javascript:x) & \"q\" 'p'"
ROWS = pd.DataFrame({"cell": [EVIL, "b"], "ms": [1.5, 2.0]})
SWEEP = {"sweep_id": "20260301-090000-aaaa", "name": EVIL, "experiment": "inference", "source": "measured",
         "created_at": "2026-03-01 09:00 UTC", "environments": [
             {"hostname": EVIL, "cpu_model": "EPYC", "cores": 2.0, "gpus": [], "driver": None, "python": "3.11.7",
              "torch": "2.15.0", "commit": "abcdef0123456789", "changed_since_commit": True}]}


def exhibit(**other: Any) -> Exhibit:
    chart = alt.Chart(ROWS).mark_bar(size=10).encode(y=alt.Y("cell:N", axis=alt.Axis(labelLimit=80)), x="ms:Q")
    made = Exhibit("bars", "Memory", f"**{safe(EVIL)}** takes 1.5 ms.", "how \\< it is", make_spec(chart),
                   list(ROWS), ROWS.values.tolist(), {"sweeps": SWEEP["sweep_id"], "view": EVIL}, [SWEEP], "now")
    return made._replace(**other)


class Elements(HTMLParser):
    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attributes)))


def test_names_and_notes_stay_text_and_nothing_is_fetched() -> None:
    html = make_html(EVIL, [(exhibit(), EVIL), (exhibit(trouble=EVIL), "")], "now")
    tags = Elements(html).tags
    assert [attributes for tag, attributes in tags if tag == "script"] == [
        {"id": "specs", "type": "application/json"}, {"type": "module"}]
    assert not [tag for tag, _ in tags if tag in ("img", "iframe", "link", "a", "object", "form")]
    assert not [attributes for _, attributes in tags if {"src", "href", "onerror"} & attributes.keys()]
    policy = next(attributes["content"] for tag, attributes in tags if attributes.get("http-equiv"))
    assert policy and policy.startswith("default-src 'none'")


def test_chart_rows_and_provenance_are_inside() -> None:
    html = make_html("Group meeting", [(exhibit(), "a note")], "now")
    found = re.search(r'<script id="specs" type="application/json">(.*?)</script>', html, re.S)
    assert found
    spec = json.loads(found[1])["specs"]["chart0"]
    assert next(iter(spec["datasets"].values())) == [{"cell": EVIL, "ms": 1.5}, {"cell": "b", "ms": 2.0}]
    text = re.sub(r"<script.*?</script>", "", html, flags=re.S)
    for told in ("20260301-090000-aaaa", "2026-03-01 09:00 UTC", "torch 2.15.0", "commit abcdef0123", "a note",
                 "not committed", "<td>1.5</td>", "Memory · bars"):
        assert told in text, told


def test_sentences_keep_their_marks_and_nothing_else() -> None:
    assert as_html(f"**{safe('a*b_c <i>')}** is `fast`. 5\\% & more") == (
        "<strong>a*b_c &lt;i&gt;</strong> is <code>fast</code>. 5% &amp; more")
    assert as_html("**open") == "<strong>open</strong>"
    assert as_text(f"**{safe('a*b_c <i>.')}** is") == "a*b_c <i>. is"


def test_a_frozen_exhibit_is_the_same_after_json() -> None:
    assert thaw(json.loads(json.dumps(freeze(exhibit())))) == exhibit()


def test_imported_runs_name_no_machine() -> None:
    told, = tell_provenance([{**SWEEP, "source": "imported", "environments": []}])
    assert "nothing is known about the machine" in told


def test_pictures_are_drawn_without_a_network() -> None:
    assert alt.SCHEMA_VERSION.removeprefix("v").startswith(VEGA_LITE), "altair and the converter draw the same"
    assert "alert('x')" in as_svg(exhibit().spec) and "<script" not in as_svg(exhibit().spec)
    picture = Image.open(io.BytesIO(as_png(exhibit().spec)))
    assert picture.width > 1500 and len(set(picture.convert("RGB").get_flattened_data())) > 10


def test_a_slide_is_larger_and_leaves_the_chart_as_it_was() -> None:
    before = json.dumps(exhibit().spec)
    slide = for_slide(exhibit().spec, 400, LIGHT)
    assert json.dumps(exhibit().spec) == before
    assert (slide["height"], slide["config"]["axis"]["labelFontSize"]) == (400, LABEL_LETTERS) and LABEL_LETTERS >= 18
    assert slide["config"]["axis"]["titleFontSize"] == SLIDE_LETTERS
    assert slide["encoding"]["y"]["axis"]["labelLimit"] > 400 and slide["mark"]["size"] == 20


@pytest.mark.parametrize(("rows", "letters", "overlap"), [
    (9, LABEL_LETTERS, False), (12, SMALLEST_LETTERS, False), (40, SMALLEST_LETTERS, "greedy")])
def test_every_bar_of_a_slide_has_its_name_where_there_is_room(rows: int, letters: int, overlap: object) -> None:
    frame = pd.DataFrame({"cell": [f"cell {row}" for row in range(rows)], "milliseconds": 1.0})
    chart = alt.Chart(frame).mark_tick(size=14).encode(x="milliseconds:Q", y="cell:N")
    slide = for_slide(make_spec(chart), 400, LIGHT)
    assert slide["config"]["axis"]["labelFontSize"] == letters
    assert slide["config"]["axisY"]["labelOverlap"] == overlap
    assert (slide["mark"]["size"] == 28) is (rows == 9), "ticks do not reach into other rows"


def test_a_headline_is_the_first_sentence() -> None:
    assert split_finding("**A** is 1.5 times faster. The rest: nothing. End.") == (
        "**A** is 1.5 times faster.", "The rest: nothing. End.")
    assert split_finding(f"{safe('v1. final')} is best") == (f"{safe('v1. final')} is best", "")
    long = "Fastest of 16 cells: one with 1.7 ms " + "x" * 90 + "; slowest: another with 5 ms. One run each."
    assert split_finding(long) == (long.split("; ")[0], "Slowest: another with 5 ms. One run each.")


def test_a_warning_before_the_note_is_never_cut_and_bold_ends_where_a_text_does() -> None:
    care = "**Not comparable without care.** " + "Measured on different machines. " * 20 + "The end."
    told = cut_note(f"{care}\n\n{'How it was drawn. ' * 40}")
    assert told.startswith(f"{care} How it was drawn.") and told.endswith(" …")
    assert len(told) < len(care) + NOTE_MOST + 5
    assert cut_note("short") == "short"
    assert cut_words("a **bold thing that** is cut", 14) == "a **bold** …"
    assert cut_words("words **bold**", 9) == "words …" and cut_words("words **bold**", 14) == "words **bold**"


def test_a_slide_has_the_rest_of_the_finding_beside_a_note() -> None:
    def slide() -> None:
        from tests.ui.test_html_export import exhibit
        from ui.present_page import draw_slide

        draw_slide(exhibit(sentence="**B** is **slower**. Baseline **A** took 1 s."), "Ask *why*")

    page = AppTest.from_function(slide).run(timeout=60)
    assert not page.exception and page.header[0].value == "**B** is **slower**."
    assert [text.value for text in page.markdown] == ["##### Baseline **A** took 1 s.", "##### Ask \\*why\\*"]
