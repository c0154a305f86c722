"""What `make test` sets up besides Python: a browser that the pages' tests can drive."""

from __future__ import annotations

import shutil

from playwright.sync_api import sync_playwright

FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
         "--disable-component-update", "--disable-sync"]


def test_chromium_draws_a_page() -> None:
    path = shutil.which("chromium") or shutil.which("google-chrome")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        page = browser.new_page()
        page.set_content("<h1 id='title'></h1><script>title.textContent = 6 * 7</script>")
        assert page.inner_text("#title") == "42"
        browser.close()
