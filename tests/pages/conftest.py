"""One process, many labs: the store that a test's pages opened is closed after it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import streamlit as st
from driven_lab import Lab


@pytest.fixture(autouse=True)
def one_store_per_test(lab: Lab) -> Iterator[None]:
    st.cache_resource.clear()
    st.cache_data.clear()
    yield
    from begin import open_keeper

    keeper = open_keeper()
    keeper.stop()
    keeper.store.close()
    st.cache_resource.clear()
