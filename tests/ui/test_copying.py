"""Tables as text to paste: nothing in a name breaks a table, in Markdown or LaTeX."""

from __future__ import annotations

import pandas as pd

from ui.copying import as_latex, as_markdown, escape_latex

TABLE = pd.DataFrame([{"Item": "a_b | 50 % & #1 {x} \\ $y$ ~^<b>\nnext", "Value": "1.2 µs [1, 2]"}])


def test_markdown_keeps_its_columns() -> None:
    head, rule, row = as_markdown(TABLE).splitlines()
    assert head == "| Item | Value |" and rule == "| --- | --- |"
    assert row.replace("\\|", "").count("|") == 3
    assert "\\<b>" in row and "a\\_b" in row


def test_latex_escapes_what_latex_would_obey() -> None:
    text = as_latex(TABLE)
    assert r"a\_b \textbar{} 50 \% \& \#1 \{x\} \textbackslash{} \$y\$" in text
    assert r"\textasciitilde{}\textasciicircum{}\textless{}b\textgreater{} next" in text
    assert r"1.2 $\mu$s [1, 2] \\" in text
    assert text.startswith(r"\begin{tabular}{ll}") and text.endswith(r"\end{tabular}")
    assert escape_latex(r"\input{x}") == r"\textbackslash{}input\{x\}"
