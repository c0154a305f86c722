"""A store whose file is damaged while the app is open: every page says so in one sentence, and none breaks."""

from __future__ import annotations

import pytest
from drawn_page import draw
from driven_lab import Lab

from begin import open_keeper
from tests.store.small_lab import write_sweep
from ui.frame import PAGES, Page


@pytest.fixture
def damaged(lab: Lab) -> Lab:
    """Written, closed, opened by the app, and then overwritten on disk: tables are read from there when asked for."""
    for number in range(3):
        write_sweep(lab.home, number, batches=4000)
    with_rows = open_keeper()
    with_rows.catch_up()
    with_rows.stop()
    with_rows.store.close()
    import streamlit as st

    st.cache_resource.clear()
    open_keeper().stop()  # opened again; nothing reads the journals any more
    size = lab.home.store.stat().st_size
    with lab.home.store.open("r+b") as file:
        file.seek(3 * 4096)
        file.write(b"\xff" * (size - 3 * 4096))
    return lab


@pytest.mark.parametrize("page", [page for page in PAGES if page.title in ("Home", "Runs", "Live")],
                         ids=lambda page: page.title)
def test_every_page_says_it_in_one_sentence(damaged: Lab, page: Page) -> None:
    drawn = draw(page.file)
    assert any("damaged" in box.value for box in drawn.error), [box.value for box in drawn.error]
