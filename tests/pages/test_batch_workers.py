"""Batch & workers on measurements whose answer is known: the page and `lab.py regret` give the hand-computed values."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import PIL.Image
import pytest
from drawn_page import draw, no_exception
from driven_lab import Lab
from streamlit.testing.v1 import AppTest

from analysis.loading_bound import detect
from begin import open_keeper
from engine.importing import import_content
from store.grids import grid_runs, loading_waits
from tests.store.journal_builder import Script, annotate

PAGE = "pages/Batch_and_workers.py"
# Seconds by model and pair; three runs each, one per cent apart, so that the middle one is the median.
TIMES = {("resnet18", 32, 1): 10.0, ("resnet18", 32, 2): 8.0, ("resnet18", 128, 1): 9.0, ("resnet18", 128, 2): 16.0,
         ("vit_b_16", 32, 1): 30.0, ("vit_b_16", 32, 2): 40.0, ("vit_b_16", 128, 1): 33.0, ("vit_b_16", 128, 2): 60.0}
REGRET = {(32, 1): (0.25 + 0) / 2, (32, 2): (0 + 1 / 3) / 2, (128, 1): (0.125 + 0.1) / 2, (128, 2): (1 + 1) / 2}
WORST = {(32, 1): 0.25, (32, 2): 1 / 3, (128, 1): 0.125, (128, 2): 1.0}
TOTAL = {(32, 1): 40, (32, 2): 48, (128, 1): 42, (128, 2): 76}
TOP_2 = {(32, 1): 1, (32, 2): 1, (128, 1): 2, (128, 2): 0}


def table(without: tuple[tuple[str, int, int], ...] = (), format: str = "jpeg", factor: float = 1.0) -> str:
    rows = ["model,batch_size,workers,format,end_to_end_s,load_data_s,inference_s,first_batch_s"]
    for (model, batch, workers), value in TIMES.items():
        for part in (0.99, 1.0, 1.01):
            seconds = value * part * factor
            if (model, batch, workers) not in without:
                rows.append(f"{model},{batch},{workers},{format},{seconds!r},{0.3 * seconds!r},{0.6 * seconds!r},"
                            f"{0.01 * workers * batch * part!r}")
    return "\n".join(rows) + "\n"


def bring_in(lab: Lab, text: str) -> str:
    return import_content(lab.home, text.encode(), "times.csv", "inference", "known")[0]


def shown(page: AppTest) -> str:
    return " ".join(text.value for text in [*page.markdown, *page.caption, *page.info, *page.warning, *page.success])


def frame(page: AppTest, column: str) -> pd.DataFrame:
    return next(box.value for box in page.dataframe if column in box.value)


def figures(page: AppTest) -> dict[tuple[int, int], Any]:
    return {(row.batch_size, row.workers): row for row in frame(page, "mean_regret").itertuples()}


def test_the_known_answer_on_the_page_and_from_the_command(lab: Lab) -> None:
    sweep_id = bring_in(lab, table())
    told = {(cell["batch_size"], cell["workers"]): cell for cell in lab.json("regret", sweep_id, "--top", "2")["cells"]}
    page = draw(PAGE, sweeps=sweep_id, view="Regret and top n", top="2")
    seen = figures(page)
    for pair in REGRET:
        assert told[pair]["mean_regret"] == pytest.approx(REGRET[pair])
        assert told[pair]["worst_regret"] == pytest.approx(WORST[pair])
        assert told[pair]["total_s"] == pytest.approx(TOTAL[pair]) and told[pair]["top_n"] == TOP_2[pair]
        row = seen[pair]
        assert (row.mean_regret, row.worst_regret) == pytest.approx(
            (told[pair]["mean_regret"] * 100, told[pair]["worst_regret"] * 100))
        assert (row.total_s, row.top_n) == pytest.approx((told[pair]["total_s"], told[pair]["top_n"]))
    assert list(told) == [(128, 1), (32, 1), (32, 2), (128, 2)] and told[128, 1]["against_best"] == "best"
    assert all(cell["against_best"] in seen[pair].against_best for pair, cell in told.items())
    said = shown(page)
    assert "**128/1** is best for all 2 models: mean regret 11.2%, worst 12.5%" in said
    assert "Least mean regret: **128/1**" in said and "Least total time: **32/1** (40.0 s)" in said
    # What seed 004 published for the same pair stands beside.
    assert seen[(128, 2)].published_regret == pytest.approx(109.61198077052567)
    assert "imported" in said


def test_pairs_that_cannot_be_told_apart_are_named(lab: Lab) -> None:
    said = shown(draw(PAGE, sweeps=bring_in(lab, table())))
    # 32/1 is slower for one model and faster for the other: on the geometric mean the two are alike.
    assert "32/1 cannot be told apart from it" in said
    assert "slower, the nearest (32/2)" in said
    assert "each at 98.33 %" in said and "Bonferroni" in said
    assert "128/1 is limited for resnet18 by **compute** (60% of its time), for vit\\_b\\_16 by **compute**" in said


def test_a_lower_geometric_mean_with_more_regret_is_said_as_such(lab: Lab) -> None:
    times = {("resnet18", 1): 1.0, ("resnet18", 2): 1.4, ("resnet18", 4): 10.0,
             ("vit_b_16", 1): 1.85, ("vit_b_16", 2): 1.4, ("vit_b_16", 4): 1.0}
    rows = [f"{model},{batch},1,{value * part!r}" for (model, batch), value in times.items()
            for part in (0.9995, 1.0, 1.0005)]
    sweep_id = bring_in(lab, "\n".join(["model,batch_size,workers,end_to_end_s", *rows]) + "\n")
    page = draw(PAGE, sweeps=sweep_id, view="Regret and top n")
    assert "**2/1** is best for all 2 models: mean regret 40.0%" in shown(page)
    assert "1/1 has a lower geometric mean over models but a higher mean regret." in shown(page)
    assert "cannot be told apart" not in shown(page)
    assert figures(page)[(1, 1)].against_best.endswith("lower, but with more regret")


def test_a_claim_from_two_runs_says_so(lab: Lab) -> None:
    rows = ["batch_size,workers,end_to_end_s"] + [f"{batch},1,{batch * part!r}" for batch in (8, 16)
                                                  for part in (0.9999, 1.0001)]
    sweep_id = bring_in(lab, "\n".join(rows) + "\n")
    page = draw(PAGE, sweeps=sweep_id, view="Regret and top n")
    assert "**8/1** comes out fastest" in shown(page) and "The nearest" not in shown(page)
    assert "1 of the differences is from two runs only: measure each cell at least three times." in shown(page)
    assert figures(page)[(16, 1)].against_best.endswith("slower, from two runs only")


def test_a_missing_cell_is_not_ranked_and_is_listed(lab: Lab) -> None:
    sweep_id = bring_in(lab, table(without=(("vit_b_16", 128, 1),)))
    report = lab.json("regret", sweep_id)
    told = {(cell["batch_size"], cell["workers"]): cell for cell in report["cells"]}
    assert told[(128, 1)]["mean_regret"] is None and told[(128, 1)]["top_n"] == 1
    assert told[(32, 1)]["mean_regret"] == pytest.approx(REGRET[(32, 1)])  # both bests are still there
    assert [(gap["model"], gap["batch_size"], gap["workers"]) for gap in report["missing"]] == [("vit_b_16", 128, 1)]
    page = draw(PAGE, sweeps=sweep_id, view="Missing")
    assert "**32/1** is best for all 2 models" in shown(page) and "1 missing cell," in shown(page)
    (row,) = frame(page, "reason").to_dict("records")
    assert (row["model"], row["batch_size"], row["workers"], row["reason"]) == ("vit_b_16", 128, 1, "no run")
    assert pd.isna(figures(draw(PAGE, sweeps=sweep_id, view="Regret and top n"))[(128, 1)].mean_regret)


def cancelled(lab: Lab, formats: tuple[str, ...] = ("jpeg",)) -> Script:
    """Planned for 3 models x 3 batch sizes x 2 repeats; only two models with two batch sizes were begun."""
    script = Script(lab.home).begin(
        planned_runs=18 * len(formats), name="cut short", fixed={"workers": 1}, repeats=2,
        grid={"model": ["resnet18", "resnet34", "vit_b_16"], "batch_size": [8, 16, 32], "format": list(formats)})
    begun = [(model, batch) for model in ("resnet18", "resnet34") for batch in (8, 16)]
    for repeat in (1, 2):
        for cell, (model, batch) in enumerate(begun):
            script.run(cell, repeat, asked={"seed": 0, "model": model, "batch_size": batch, "workers": 1})
    return script.end("cancelled").write()


def test_cells_that_were_never_begun_are_missing_and_said(lab: Lab) -> None:
    sweep_id = cancelled(lab).sweep_id
    report = lab.json("regret", sweep_id)
    assert "the sweep cut short was cancelled: 8 of 18 runs are done" in report["warnings"][0]
    gaps = {(gap["model"], gap["batch_size"]): gap["reason"] for gap in report["missing"]}
    assert gaps == {("resnet18", 32): "not begun", ("resnet34", 32): "not begun",
                    **{("vit_b_16", batch): "not begun" for batch in (8, 16, 32)}}
    assert [cell["mean_regret"] for cell in report["cells"]] == [None] * 3
    page = draw(PAGE, sweeps=sweep_id, view="Missing")
    assert ["The sweep cut short was cancelled: 8 of 18 runs are done; resume it" in box.value.replace("\\", "")
            for box in page.info] == [True]
    assert "No pair can be recommended" in shown(page) and "10 more without a time" in shown(page)
    assert len(frame(page, "reason")) == 5 and set(frame(page, "reason")["reason"]) == {"not begun"}
    page = draw(PAGE, sweeps=sweep_id, view="Bars", models="resnet18,resnet34", family="One model, both vary")
    assert "for all 2 models" in shown(page) and "1 more cell has no time." in shown(page)


def test_a_format_that_was_never_begun_is_listed_as_missing(lab: Lab) -> None:
    page = draw(PAGE, sweeps=cancelled(lab, ("jpeg", "memmap")).sweep_id, view="Missing")
    gaps = frame(page, "reason")
    assert len(gaps[gaps["format"] == "memmap"]) == 9 and "##### memmap" not in shown(page)


def test_a_deleted_run_was_begun(lab: Lab) -> None:
    script = cancelled(lab)
    for repeat in (1, 2):
        annotate(lab.home, f"someone-{repeat}", (script.run_id(0, repeat), "delete", "", 1.0))
    missing = lab.json("regret", script.sweep_id)["missing"]
    reasons = {(gap["model"], gap["batch_size"]): gap["reason"] for gap in missing}
    assert reasons[("resnet18", 8)] == "no run" and reasons[("vit_b_16", 8)] == "not begun"


def test_a_link_names_a_grid_by_what_it_is(lab: Lab) -> None:
    """Another grid that comes first must not be opened by the links of before."""
    small = bring_in(lab, table().replace("model,", "image_size,model,", 1).replace("\nresnet18", "\n64,resnet18")
                     .replace("\nvit_b_16", "\n96,vit_b_16"))
    page = draw(PAGE, sweeps=small)
    second = page.selectbox(key="choose_grid").options[1]
    assert "image_size 96" in second
    link = no_exception(page.selectbox(key="choose_grid").set_value(second).run()).query_params["grid"]
    larger = bring_in(lab, table() + table(factor=2.0).partition("\n")[2])
    open_keeper().catch_up(60)
    page = draw(PAGE, sweeps=f"{larger},{small}", grid=link)
    assert len(page.selectbox(key="choose_grid").options) == 3
    assert "vit" in shown(page) and "resnet18" not in shown(page)


def test_one_model_alone_has_its_own_answer(lab: Lab) -> None:
    sweep_id = bring_in(lab, table())
    said = shown(draw(PAGE, sweeps=sweep_id, models="resnet18"))
    assert "**32/2** is fastest for resnet18: median 8.00 s (95 % interval 7.80 s to 8.20 s, 3 runs)" in said


def test_formats_stand_side_by_side_and_other_settings_are_not_pooled(lab: Lab) -> None:
    jpeg, stored = table(), table(format="tensor_files", factor=0.5)
    sweep_id = bring_in(lab, jpeg + "".join(stored.splitlines(keepends=True)[1:]))
    page = draw(PAGE, sweeps=sweep_id, view="Heat map")
    said = shown(page)
    assert "##### jpeg" in said and "##### tensor" in said and said.count("is best for all 2 models") == 2
    cells = lab.json("regret", sweep_id)["cells"]
    assert len(cells) == 8 and {cell["setting"]["format"] for cell in cells} == {"jpeg", "tensor_files"}
    other = bring_in(lab, table().replace("model,", "image_size,model,", 1).replace("\nresnet18", "\n64,resnet18")
                     .replace("\nvit_b_16", "\n96,vit_b_16"))
    open_keeper().catch_up(60)
    page = draw(PAGE, sweeps=f"{sweep_id},{other}")
    assert "3 grids that differ in image size, where they were measured" in shown(page).replace("\\", "")


def test_imports_are_not_pooled_with_each_other(lab: Lab) -> None:
    """Nobody knows whether two files came from one machine."""
    here, there = bring_in(lab, table()), bring_in(lab, table(factor=3.0))
    page = draw(PAGE, sweeps=f"{here},{there}")
    assert "2 grids that differ in where they were measured. Their runs are not pooled" in shown(page)
    assert "24 runs" in shown(page) and "48 runs" not in shown(page)
    offered = page.selectbox(key="choose_grid").options
    assert len(set(offered)) == 2 and all("imported as known" in option for option in offered)
    grid = page.query_params["grid"]
    third = bring_in(lab, table(factor=2.0) + "resnet34,32,1,jpeg,1,0.1,0.1,0.1\n")  # more runs: it comes first
    open_keeper().catch_up(60)
    page = draw(PAGE, sweeps=f"{third},{here},{there}", grid=grid)
    assert page.query_params["grid"] == grid and "24 runs" in shown(page)


def test_the_three_families_and_every_view_draw(lab: Lab) -> None:
    sweep_id = bring_in(lab, table(without=(("vit_b_16", 128, 1),)))
    for family, stacked, said in (("Fixed batch size, workers vary", "false", "Fastest "),
                                  ("Fixed workers, batch size varies", "true", "Fastest "),
                                  ("One model, both vary", "true", "with batch size 32 and 2 workers")):
        assert said in shown(draw(PAGE, sweeps=sweep_id, view="Bars", family=family, stacked=stacked))
    assert "From 12.5% at **32/1**" in shown(draw(PAGE, sweeps=sweep_id, view="Heat map"))
    assert "What seed 004 published" in shown(draw(PAGE, sweeps=sweep_id, view="Published"))


def test_the_first_batch_is_told_with_its_extremes(lab: Lab) -> None:
    said = shown(draw(PAGE, sweeps=bring_in(lab, table()), view="First batch"))
    assert "from 320 ms (32/1) to **2.56 s** (128/2), 8.0 times as long" in said


def test_what_limits_each_cell_has_a_number_and_a_next_step(lab: Lab) -> None:
    page = draw(PAGE, sweeps=bring_in(lab, table()), view="What limits it", model="vit_b_16")
    rows = {row.pair: row for row in frame(page, "limit").itertuples()}
    assert set(rows) == {"32/1", "32/2", "128/1", "128/2"}
    assert all(row.limit == "compute" and row.share == pytest.approx(60) and row.next for row in rows.values())


def test_an_empty_lab_shows_what_was_published_and_what_to_launch(lab: Lab) -> None:
    page = draw(PAGE)
    said = shown(page)
    assert "No sweep with a batch size and workers" in said and "JPEG images" in said
    assert "at **128/12**" in said and "at **256/2**" in said
    assert any("preset=seed-004-small" in link.proto.query_string for link in page.get("page_link"))


def test_failed_runs_only_are_said(lab: Lab) -> None:
    file = lab.sweep_file(experiment="inference", name="cannot", grid={"batch_size": [8, 16]},
                          fixed={"device": "cuda", "batches": 1, "image_size": 32})
    lab.json("sweep", file, "--wait", expect=(0, 1))
    assert "No run of these sweeps has a time yet" in shown(draw(PAGE))


def test_unequal_work_is_said_and_can_be_compared_per_image(lab: Lab) -> None:
    rows = ["batch_size,workers,end_to_end_s,items"]
    rows += [f"{batch},1,{batch * 0.1 * part!r},{batch * 10}" for batch in (8, 64) for part in (0.99, 1, 1.01)]
    sweep_id = bring_in(lab, "\n".join(rows) + "\n")
    assert "unequal work" in lab.json("regret", sweep_id, "--whole")["warnings"][0]
    assert "80 to 640 images" in shown(draw(PAGE, sweeps=sweep_id, per_image="false"))
    page = draw(PAGE, sweeps=sweep_id)  # what compares like with like comes first
    assert "unequal" not in shown(page) and "per image" in shown(page)
    report = lab.json("regret", sweep_id)  # the command begins with what the page begins with
    assert report["per_image"] is True and report == lab.json("regret", sweep_id, "--per-image")
    assert [cell["mean_regret"] for cell in report["cells"]] == pytest.approx([0, 0], abs=1e-9)
    assert lab.json("regret", sweep_id, "--whole")["per_image"] is False
    assert "total per image" in lab.call("regret", sweep_id)[1]


def test_runs_that_are_shorter_than_asked_or_than_their_workers_are_said(lab: Lab, images: Path) -> None:
    """Nine images of a folder: of the six batches asked for there are four of two, and two of four."""
    folder = lab.home.root.parent / "set"
    for name in ("a", "b"):
        (folder / name).mkdir(parents=True)
        for number in range(5 if name == "a" else 4):
            PIL.Image.new("RGB", (40, 40)).save(folder / name / f"{number}.jpg")
    sweep_id = lab.json("sweep", lab.sweep_file(
        experiment="inference", grid={"batch_size": [2, 4], "workers": [1, 2]}, repeats=2,
        fixed={"data": str(folder), "batches": 6, "image_size": 32, "threads": 1}), "--wait")["sweep_id"]
    report = lab.json("regret", sweep_id)
    said = " ".join(report["warnings"])
    assert report["per_image"] is False, "eight images each: the same work"
    assert "the data has no more images: 2/1 had 4 of 6, 2/2 had 4 of 6, 4/1 had 2 of 6, 4/2 had 2 of 6" in said
    assert "no more batches than workers" in said and "steady state: 4/2 had 2;" in said
    for per_image in ("true", "false"):
        boxes = " ".join(box.value for box in draw(PAGE, sweeps=sweep_id, per_image=per_image).warning)
        assert "2/1 had 4 of 6" in boxes and "4/2 had 2;" in boxes


def test_where_one_grid_compares_per_image_the_other_keeps_its_whole_times(lab: Lab) -> None:
    rows = ["image_size,batch_size,workers,end_to_end_s,items"]
    rows += [f"{size},{batch},1,{batch * 0.1 * part!r},{batch * 10 if size == 64 else 640}"
             for size in (64, 96) for batch in (8, 64) for part in (0.99, 1, 1.01)]
    report = lab.json("regret", bring_in(lab, "\n".join(rows) + "\n"))
    assert report["per_image"] is None
    assert {(cell["setting"]["image_size"], cell["per_image"]) for cell in report["cells"]} == {(64, True), (96, False)}


def test_cells_whose_items_are_unknown_are_missing_per_image(lab: Lab) -> None:
    rows = ["batch_size,workers,end_to_end_s,items", "8,1,1.0,80", "8,1,1.1,", "64,1,2.0,", "64,1,2.1,"]
    sweep_id = bring_in(lab, "\n".join(rows) + "\n")
    page = draw(PAGE, sweeps=sweep_id, view="Missing", per_image="true")
    (gap,) = frame(page, "reason").to_dict("records")
    assert (gap["batch_size"], gap["reason"]) == (64, "ok, but its number of items is unknown")
    assert "3 of them not in the time per image: their number of items is unknown" in shown(page)
    assert [gap["batch_size"] for gap in lab.json("regret", sweep_id, "--per-image")["missing"]] == [64]
    assert "Every model has a time in every cell" in shown(draw(PAGE, sweeps=sweep_id, view="Missing"))


def test_a_link_to_a_sweep_that_is_not_there_is_said(lab: Lab) -> None:
    sweep_id = bring_in(lab, table())
    assert not draw(PAGE, sweeps=sweep_id).warning and not draw(PAGE).warning
    page = draw(PAGE, sweeps="20200101-000000-aaaa")
    assert ["Sweeps: what the link names is not here" in box.value for box in page.warning] == [True]
    page = draw(PAGE, sweeps=f"{sweep_id},20200101-000000-aaaa")
    assert ["Sweeps: 1 of 2 that the link names are not here" in box.value for box in page.warning] == [True]


def test_another_sweep_is_shown_with_all_its_models(lab: Lab) -> None:
    one = bring_in(lab, table())
    other = bring_in(lab, table().replace("vit_b_16", "resnet34") + "vit_b_32,32,1,jpeg,1,0.1,0.1,0.1\n")
    page = draw(PAGE, sweeps=one, models="resnet18")
    assert page.multiselect(key="choose_models").value == ["resnet18"]
    page = no_exception(page.multiselect(key="choose_sweeps").set_value([other]).run())
    assert page.multiselect(key="choose_models").value == ["resnet18", "resnet34", "vit_b_32"]
    # A choice that stays within the same models is kept.
    page = no_exception(page.multiselect(key="choose_models").set_value(["vit_b_32"]).run())
    assert no_exception(page.run()).multiselect(key="choose_models").value == ["vit_b_32"]


def test_waits_are_those_of_the_first_epoch_and_the_detector_is_quoted(lab: Lab) -> None:
    script = Script(lab.home, experiment="loading").begin(planned_runs=2, grid={"batch_size": [8, 16]})
    said = script.run(0, batches=12, workers=2, asked={"seed": 0, "batch_size": 8, "epochs": 3}, phases=["load_data"],
                      effective={"batches_per_epoch": 5})
    counted = script.run(1, batches=12, workers=2, asked={"seed": 0, "batch_size": 16, "epochs": 3},
                         phases=["load_data"])
    script.end().write()
    page = draw(PAGE, sweeps=script.sweep_id, view="What limits it")
    waits = loading_waits(open_keeper().store.cursor(), [said, counted])
    assert {run_id: len(found) for run_id, found in waits.items()} == {said: 5, counted: 4}
    assert {run.cores for run in grid_runs(open_keeper().store.cursor(), [script.sweep_id])} == {4.0}
    rows = {row.pair: row for row in frame(page, "limit").itertuples()}
    for run_id, pair in ((said, "8/2"), (counted, "16/2")):
        assert rows[pair].detector == detect(waits[run_id], 2).verdict
    assert "the first wait of each later one" in shown(page)


def test_a_link_that_was_tampered_with_draws(lab: Lab) -> None:
    sweep_id = bring_in(lab, table())
    for query in ({"sweeps": "nonsense"}, {"sweeps": sweep_id, "models": "nobody", "grid": "99", "view": "x"},
                  {"sweeps": sweep_id, "top": "-5", "fixed_batch_size": "7"}, {"sweeps": "," * 5000}):
        no_exception(draw(PAGE, **query))
