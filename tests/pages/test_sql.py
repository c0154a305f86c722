"""The SQL page: a query runs once, its answer stays while it is looked at, a link holds it, a refusal is a sentence."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import pandas as pd
import pytest
from drawn_page import draw, no_exception
from driven_lab import Lab
from streamlit.runtime.media_file_manager import MediaFileManager
from streamlit.testing.v1 import AppTest

from begin import open_keeper
from engine.boards import add_item, create_board
from engine.params import InputError
from store.sql_examples import EXAMPLES
from tests.store.journal_builder import Script

COUNT = "SELECT status, count(*) AS runs FROM runs GROUP BY ALL"


@pytest.fixture(autouse=True)
def measured(lab: Lab) -> None:
    script = Script(lab.home).begin(planned_runs=2)
    script.run(0)
    script.run(1, status="failed", reason="no such thing")
    script.end().write()
    assert open_keeper().wait_until_ready(120)  # a page would wait for two seconds only


def said(page: AppTest) -> str:
    return " ".join(text.value for text in page.caption)


def run(page: AppTest, sql: str) -> AppTest:
    page.text_area(key="sql_text").set_value(sql)
    (button,) = [button for button in page.button if button.label == "Run"]
    return no_exception(button.click().run(timeout=60))


def test_a_query_is_run_and_its_answer_stays(lab: Lab) -> None:
    page = run(draw("pages/SQL.py"), COUNT)
    assert "2 rows" in said(page) and page.query_params["q"] == COUNT
    assert page.dataframe[-1].value["runs"].tolist() == [1, 1]
    kept = page.session_state["sql_answer"]
    page = no_exception(page.button_group(key="as").set_value("Chart").run(timeout=60))
    assert page.session_state["sql_answer"] is kept  # looked at in another way, not asked again
    assert any("runs is 1" in text.value for text in page.markdown)


def test_a_link_runs_its_query_and_draws_its_chart(lab: Lab) -> None:
    page = draw("pages/SQL.py", q="SELECT batch, seconds FROM batches", **{"as": "Chart"}, x="batch", y="seconds",
                mark="points")
    assert any("seconds goes from" in text.value for text in page.markdown)
    assert page.text_area(key="sql_text").value == "SELECT batch, seconds FROM batches"


def test_bars_over_several_rows_are_not_stacked(lab: Lab) -> None:
    page = draw("pages/SQL.py", q="SELECT phase, seconds FROM phases", **{"as": "Chart"}, x="phase", mark="bars")
    assert any("several rows share one" in box.value for box in page.info)


@pytest.mark.parametrize(("sql", "sentence"), [
    ("SELECT * FROM read_csv('/etc/passwd')", "no files"), ("DROP TABLE runs", "DROP is refused"),
    ("SELECT '<script>' FROM nowhere", "does not exist")])
def test_a_refusal_is_one_sentence(lab: Lab, sql: str, sentence: str) -> None:
    page = run(draw("pages/SQL.py"), sql)
    (box,) = page.error
    assert sentence in box.value and "\n" not in box.value
    page = run(page, COUNT)
    assert not page.error and "2 rows" in said(page)
    assert any("Queries of this visit (2)" in box.label for box in page.expander)


def test_an_example_fills_the_editor_and_runs(lab: Lab) -> None:
    page = draw("pages/SQL.py")
    page = no_exception(page.button(key=f"example_{EXAMPLES[4].title}").click().run(timeout=60))
    assert page.text_area(key="sql_text").value == EXAMPLES[4].sql
    assert "1 row " in said(page)


def test_odd_answers_are_drawn(lab: Lab) -> None:
    page = draw("pages/SQL.py")
    for sql in ("SELECT 1 AS \"a.b[c]:Q\", 'x' AS \"\", NULL AS n", "SELECT 'nan'::DOUBLE AS v, 1 AS x",
                "SELECT 1 WHERE false", "SELECT NULL AS only", "SELECT true AS yes, [1] AS l"):
        page = run(page, sql)
        for shown in ("Chart", "Table"):
            if page.button_group:
                page = no_exception(page.button_group(key="as").set_value(shown).run(timeout=60))
    assert no_exception(draw("pages/SQL.py", q="S" * 5000, table="nonsense", x="'", **{"as": "x"})).error


def test_its_chart_does_not_go_onto_a_board(lab: Lab) -> None:
    """A board's item is a chart and what is chosen, never SQL."""
    board_id = create_board(lab.home, "mine")
    with pytest.raises(InputError, match="holds no code"):
        add_item(lab.home, board_id, "SQL", "query_chart", {"q": COUNT})


def test_a_chart_whose_query_is_not_in_the_link_is_taken_along_as_drawn(lab: Lab,
                                                                         monkeypatch: pytest.MonkeyPatch) -> None:
    """Too long for a link: running the page again would draw nothing."""
    makers: dict[str, Callable[[], bytes]] = {}
    real = MediaFileManager.add_deferred

    def add(self: MediaFileManager, maker: Callable[[], bytes], kind: str | None, place: str,
            file_name: str | None = None, **more: Any) -> str:
        makers[str(file_name)] = maker
        return real(self, maker, kind, place, file_name, **more)

    monkeypatch.setattr(MediaFileManager, "add_deferred", add)
    long = "SELECT TIMESTAMP '2026-01-02 03:04:05' + to_hours(range::INT) AS moment, range AS n FROM range(3) --"
    page = run(draw("pages/SQL.py", **{"as": "Chart"}, x="moment", y="n", mark="points"), long + "x" * 5000)
    assert "q" not in page.query_params
    no_exception(page.button(key="take_query_chart").click().run(timeout=60))
    assert makers["query_chart.png"]().startswith(b"\x89PNG") and b"<svg" in makers["query_chart.svg"]()
    assert b'class="chart"' in makers["SQL.html"]()
    taken = pd.read_parquet(io.BytesIO(makers["query_chart.parquet"]()))
    assert taken["moment (across)"].tolist() == [pd.Timestamp(2026, 1, 2, hour, 4, 5) for hour in (3, 4, 5)]


def test_a_viewer_may_ask(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PHASELAB_VIEWER", "1")
    page = run(draw("pages/SQL.py"), COUNT)
    assert "2 rows" in said(page)
