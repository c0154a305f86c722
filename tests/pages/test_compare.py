"""The Compare page: verdicts side by side, whole sweeps, over time; and links that are empty, tampered or too long."""

from __future__ import annotations

import re

import drawn_page
import pytest
from drawn_page import no_exception
from driven_lab import Lab
from streamlit.testing.v1 import AppTest

from begin import open_keeper
from engine.people import annotate
from tests.store.compared_lab import NEW, OLD, write_cells, write_upgrade
from tests.store.journal_builder import Script
from ui.exhibits import make_exhibits, make_page_exhibits
from ui.figure import END_OF_CARE
from ui.html_export import as_text, make_html

BESIDE, TIME = "Side by side", "Over time"
PAGE = "pages/Compare.py"


def draw(page: str, **query: str) -> AppTest:
    """With every journal read: a page waits for them two seconds only."""
    assert open_keeper().wait_until_ready(120)
    return drawn_page.draw(page, **query)


def said(page: AppTest) -> str:
    boxes = [*page.markdown, *page.caption, *page.warning, *page.info]
    return re.sub(r"\\(.)", r"\1", " ".join(box.value for box in boxes))


def table(page: AppTest, heading: str) -> list[dict[str, str]]:
    frame = next(found.value for found in page.dataframe if heading in found.value)
    return [dict(row) for row in frame.to_dict("records")]


def cells(sweep_id: str, count: int) -> list[str]:
    return [f"{sweep_id}-{cell:010x}" for cell in range(count)]


def test_an_empty_lab_leads_to_launching(lab: Lab) -> None:
    assert "nothing to compare" in said(draw(PAGE))


def test_without_items_sweeps_can_be_chosen(lab: Lab) -> None:
    write_upgrade(lab.home)
    page = draw(PAGE)
    assert "tick runs on the Runs page" in said(page) and "any chart" not in said(page)
    charts = "the charts of Home, Live, Batch & workers, Data loading, Model search, Memory and Training: the way here"
    assert charts in said(page)
    page = no_exception(page.multiselect(key="compared").set_value([OLD, NEW]).run())
    assert "matched cells" in said(page)
    assert page.query_params["items"] in ([f"{OLD},{NEW}"], f"{OLD},{NEW}")


def test_side_by_side_with_repeats_grouped_and_a_verdict(lab: Lab) -> None:
    write_upgrade(lab.home)
    page = draw(PAGE, items=",".join([*cells(OLD, 1), *cells(NEW, 1)]), all_metrics="true")
    text = said(page).replace("**", "")
    assert "Baseline A, end to end" in text
    assert re.search(r"B \(.*after\) is slower: 1\.5\d? times A, 95 % interval \[1\.4", text)
    assert re.search(r"a shift of ≥ \d+(\.\d)? % would have been shown in 4 of 5", text)
    assert "torch 2.15.0, 2.16.0" in text, "another version is a warning"
    (metric, *_) = table(page, "Metric")
    assert metric["Verdict"] == "baseline" and metric["Runs"] == "3"
    rates = [row for row in table(page, "Metric") if row["Metric"] == "images per second"]
    assert [row["Verdict"] for row in rates] == ["baseline", "slower"]
    assert {row["Environment"] for row in table(page, "A") if "Environment" in row} == {"libraries torch"}


def test_the_baseline_is_pinned_by_the_link(lab: Lab) -> None:
    write_upgrade(lab.home)
    items = [*cells(OLD, 1), *cells(NEW, 1)]
    text = said(draw(PAGE, items=",".join(items), baseline=items[1])).replace("**", "")
    assert "Baseline B" in text and "faster: 0.67 times B" in text
    page = draw(PAGE, items=",".join(items), baseline=f"{OLD}-0000000009")
    assert "Baseline: what the link names is not here" in said(page)


def test_a_board_never_shows_another_sweep_instead_of_its_own(lab: Lab) -> None:
    write_upgrade(lab.home)
    keeper = open_keeper()
    assert keeper.wait_until_ready(120)
    shown = {"Live": ({"sweep": OLD}, "cells"), "Batch & workers": ({"sweeps": OLD}, "bars_jpeg")}
    for page, (link, chart) in shown.items():
        (before,) = make_exhibits(keeper.store.cursor(), page, link, chart)
        assert not before.trouble and [sweep["sweep_id"] for sweep in before.sweeps] == [OLD]
    annotate(lab.home, [OLD], "delete")
    keeper.catch_up()
    for page, (link, chart) in shown.items():
        (after,) = make_exhibits(keeper.store.cursor(), page, link, chart)
        assert "what the link names is not here" in after.trouble and not after.rows


def test_what_weakens_a_comparison_goes_along_with_its_chart(lab: Lab) -> None:
    write_upgrade(lab.home)
    keeper = open_keeper()
    assert keeper.wait_until_ready(120)
    items = [*cells(OLD, 1), *cells(NEW, 1)]
    link = {"items": ",".join([*items, f"{OLD}-0000000009"])}
    (found,) = make_exhibits(keeper.store.cursor(), "Compare", link, "compare_ratios")
    care, _, note = as_text(found.note).rpartition(END_OF_CARE)
    assert f"Not here: {OLD}-0000000009" in care and "torch 2.15.0, 2.16.0" in care
    assert re.search("To know: .*apart and not in turns", note)


def test_phases_add_up_to_the_tick(lab: Lab) -> None:
    write_upgrade(lab.home)
    keeper = open_keeper()
    assert keeper.wait_until_ready(120)
    (found,) = make_exhibits(keeper.store.cursor(), "Compare", {"items": f"{OLD},{NEW}", "compare": BESIDE},
                             "compare_phases")
    items = found.frame().groupby("item")
    assert list(items["milliseconds"].sum()) == pytest.approx(list(items["whole"].first()))


def test_the_whole_page_is_taken_with_its_tables_and_views(lab: Lab) -> None:
    write_upgrade(lab.home)
    keeper = open_keeper()
    assert keeper.wait_until_ready(120)
    found = {one.name: one for one in make_page_exhibits(
        keeper.store.cursor(), "Compare", {"items": f"{OLD},{NEW}"})}
    assert {"compare_ratios", "compare_metrics", "compare_eras", f"compare_sweep_{NEW}"} <= found.keys()
    assert not found["compare_metrics"].spec and found["compare_metrics"].rows
    html = make_html("Compare", [(one, "") for one in found.values()], "now")
    assert "<details open><summary>The" in html and "<th>verdict</th>" in html


def test_a_link_is_left_as_it_came(lab: Lab) -> None:
    """Every change of the link would be one more press of the browser's Back."""
    write_upgrade(lab.home)
    for view in ({}, {"compare": BESIDE}, {"compare": TIME}):
        query = {"items": f"{OLD},nonsense,{NEW}", **view}
        page = draw(PAGE, **query)
        found = {name: value[0] if isinstance(value, list) else value for name, value in page.query_params.items()}
        assert found == query


def test_all_parameters_or_only_the_differences(lab: Lab) -> None:
    write_upgrade(lab.home)
    page = draw(PAGE, items=",".join(cells(OLD, 2)))
    assert [row["Parameter"] for row in table(page, "Parameter")] == ["batch_size"]
    page = draw(PAGE, items=",".join(cells(OLD, 2)), differences="false")
    assert {"batch_size", "workers", "seed"} <= {row["Parameter"] for row in table(page, "Parameter")}


def test_the_tables_can_be_copied_as_markdown_and_latex(lab: Lab) -> None:
    write_cells(lab.home, OLD, [1.0, 2.0], name="50 % & more_or | less")
    page = draw(PAGE, items=",".join(cells(OLD, 2)))
    texts = [code.value for code in page.code]
    assert any(text.startswith("| Metric | Item |") and "slower" in text for text in texts)
    assert any(r"\begin{tabular}" in text and r"batch\_size=16" in text for text in texts)


def test_whole_sweeps_are_matched_cell_by_cell(lab: Lab) -> None:
    before, after = write_upgrade(lab.home)
    text = said(draw(PAGE, items=f"{before},{after}")).replace("**", "")
    assert re.search(r"after is slower than before: 1\.50 times, end to end over 2 matched cells \(geometric mean, 95 "
                     r"% interval \[1\.4\d, 1\.5\d\]\)\. Cell by cell: 2 slower", text)


def test_sweeps_with_different_settings_and_cells_without_partner(lab: Lab) -> None:
    before = write_cells(lab.home, OLD, [1.0, 2.0], asked={"threads": 1}, name="one")
    after = write_cells(lab.home, NEW, [1.0], asked={"threads": 2}, name="two")
    text = said(draw(PAGE, items=f"{before},{after}"))
    assert "Left aside in matching" in text and "threads (1 against 2)" in text
    assert "Without a partner, only in one: batch_size=16" in text
    assert "no difference shown" in text


def test_sweeps_that_ask_different_questions_get_no_verdict(lab: Lab) -> None:
    before = write_cells(lab.home, OLD, [1.0, 2.0], name="one")
    after = write_cells(lab.home, NEW, [2.0, 4.0], name="two", experiment="training")
    text = said(draw(PAGE, items=f"{before},{after}")).replace("**", "")
    assert "two (training) and one (inference) answer different questions: their cells are not matched" in text
    assert "slower" not in text and "Not comparable without care" in text


def test_cells_that_failed_in_one_of_the_sweeps_are_counted(lab: Lab) -> None:
    before = write_cells(lab.home, OLD, [1.0, 2.0], name="one")
    after = write_cells(lab.home, NEW, [2.0], name="two")
    broken = Script(lab.home, "20260301-130000-cccc").begin(name="three")
    for cell, status in ((0, "ok"), (1, "failed")):
        for repeat in (1, 2):
            broken.run(cell, repeat, status=status, reason="" if status == "ok" else "it broke",
                       asked={"seed": 0, "batch_size": 8 * (cell + 1), "workers": 1},
                       metrics={"end_to_end_s": 1.0 + repeat / 50})
    text = said(draw(PAGE, items=f"{before},{broken.end().write().sweep_id}"))
    assert "1 cell was not measured in one of them." in text and "2 failed" in text
    assert "not measured in one of them" not in said(draw(PAGE, items=f"{before},{after}"))


def test_over_time_names_the_change_and_what_it_did(lab: Lab) -> None:
    write_upgrade(lab.home)
    page = draw(PAGE, items=cells(NEW, 1)[0], compare=TIME)
    assert "1 change of the environment over 6 runs" in said(page)
    first, second = table(page, "What changed")
    assert first["Verdict"] == "–" and second["Verdict"] == "slower"
    assert second["What changed"] == "torch 2.15.0 → 2.16.0"
    assert "Drift of the machine between the days" in said(page) and "measured up to 3 hours apart" in said(page)


def test_the_same_measured_twice_shows_no_difference(lab: Lab) -> None:
    first = write_cells(lab.home, OLD, [1.0, 2.0], name="A")
    second = write_cells(lab.home, NEW, [1.0, 2.0], repeats=4, name="A again")
    text = said(draw(PAGE, items=f"{first},{second}")).replace("**", "")
    assert "No difference shown between A again and A" in text and "over 2 matched cells" in text
    assert "Cell by cell: 2 no difference shown" in text


def test_one_run_alone_and_failed_runs_only(lab: Lab) -> None:
    write_upgrade(lab.home)
    failed = write_cells(lab.home, "20260303-090000-dddd", [1.0], status="failed")
    one = f"{cells(OLD, 1)[0]}-1"
    assert "One group of runs" in said(draw(PAGE, items=one))
    assert "over 6 runs" in said(draw(PAGE, items=one, compare=TIME))
    assert "None of these runs has figures" in said(draw(PAGE, items=failed))
    assert "over 6 runs" in said(draw(PAGE, items=failed, compare=TIME)), "the same cell did well elsewhere"
    mixed = said(draw(PAGE, items=f"{cells(OLD, 1)[0]},{failed}"))
    assert "3 failed" in mixed and "not measured" in mixed


def test_two_single_runs_have_no_verdict(lab: Lab) -> None:
    write_upgrade(lab.home)
    text = said(draw(PAGE, items=f"{cells(OLD, 1)[0]}-1,{cells(NEW, 1)[0]}-1"))
    assert "Too few runs to tell" in text and "repeat each at least three times" in text


def test_more_than_a_dozen_are_named_and_left_out(lab: Lab) -> None:
    sweep_id = write_cells(lab.home, OLD, [1.0 + cell for cell in range(14)], repeats=2)
    page = draw(PAGE, items=sweep_id)
    text = said(page)
    assert "The first 12 of 14 cells" in text and "Left out" in text
    assert len(table(page, "What sets it apart")) == 12
    assert "Of 11 others" in text


def test_items_beyond_the_most_are_said_to_be_left_out(lab: Lab) -> None:
    write_upgrade(lab.home)
    runs = [f"{OLD}-{number:010x}-1" for number in range(203)]
    assert "The link names 203 items: the first 200 are looked at, 3 are left out." in said(
        draw(PAGE, items=",".join(runs)))
    assert "The link names" not in said(draw(PAGE, items=",".join(runs[:200])))


def test_noisy_runs_are_said_to_be(lab: Lab) -> None:
    write_upgrade(lab.home)
    keeper = open_keeper()
    keeper.catch_up(60)
    keeper.exclusively(lambda cursor: cursor.execute("UPDATE runs SET noisy = true WHERE repeat = 1"))
    text = said(draw(PAGE, items=",".join([*cells(OLD, 1), *cells(NEW, 1)])))
    assert "Not comparable without care" in text and "A (1 of 3), B (1 of 3)" in text
    text = said(draw(PAGE, items=cells(NEW, 1)[0], compare=TIME))
    assert "Not comparable without care" in text
    assert "before any change (1 of 3), after change 1 (1 of 3)" in text


@pytest.mark.parametrize("value", ["nonsense", "9" * 5000, "'; DROP TABLE runs; --", "../../etc/passwd", ",,,",
                                   "`*x*`"])
def test_tampered_links_draw_all_the_same(lab: Lab, value: str) -> None:
    write_upgrade(lab.home)
    draw(PAGE, items=value)
    page = draw(PAGE, items=f"{value},{OLD},{NEW}", baseline=value, metric=value, reading=value, compare=value,
                cell=value, machine=value, against=value, differences=value, even=value)
    assert "matched cells" in said(page)
    assert ("Not here" in said(page)) is (value != ",,,")


def test_taking_the_baseline_away_leaves_the_first_one(lab: Lab) -> None:
    write_upgrade(lab.home)
    first, second = [*cells(OLD, 1), *cells(NEW, 1)]
    page = draw(PAGE, items=f"{first},{second},{cells(NEW, 2)[1]}", baseline=second, metric="images_per_s")
    assert "Baseline B, images per second" in said(page).replace("**", "")
    page = no_exception(page.multiselect(key="compared").set_value([first, cells(NEW, 2)[1]]).run())
    assert "Baseline A, images per second" in said(page).replace("**", "")


def test_a_board_can_hold_every_figure_of_it(lab: Lab) -> None:
    from ui.replay import replay

    before, after = write_upgrade(lab.home)
    names = {}
    for view in ("Whole sweeps", BESIDE, TIME):
        found = replay("Compare", {"items": f"{before},{after}", "compare": view})
        assert not found.trouble and found.views == {"compare": ["Whole sweeps", BESIDE, TIME]}
        names[view] = [figure.name for figure in found.figures if figure.chart is not None]
        assert all(figure.sentence for figure in found.figures)
        if view != TIME:
            assert found.figures[0].note.startswith("**Not comparable without care.** Versions"), "torch was upgraded"
    assert names[BESIDE] == ["compare_ratios", "compare_phases", "compare_telemetry"]
    assert names[TIME] == ["compare_eras"] and names["Whole sweeps"] == [f"compare_sweep_{NEW}"]
