"""Pages drawn by Streamlit's AppTest in this process, on the lab that the environment names."""

from __future__ import annotations

from pathlib import Path

from streamlit.testing.v1 import AppTest

from engine.home import PROJECT


def draw(page: str, project: Path = PROJECT, **query: str) -> AppTest:
    """A page as its first visitor gets it; an exception on it fails the test."""
    test = AppTest.from_file(str(project / "app.py"), default_timeout=60)
    for name, value in query.items():
        test.query_params[name] = value
    if page != "app.py":
        test.switch_page(page)
    return no_exception(test.run())


def no_exception(page: AppTest) -> AppTest:
    assert not page.exception, [error.message for error in page.exception]
    return page
