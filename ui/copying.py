"""A table as text to be pasted: Markdown for a page, LaTeX for a paper."""

from __future__ import annotations

import pandas as pd
import streamlit as st

_LATEX = {"\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "#": r"\#", "_": r"\_", "%": r"\%",
          "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}",
          "|": r"\textbar{}", "µ": r"$\mu$", "×": r"$\times$", "·": r"$\cdot$", "≥": r"$\geq$", "→": r"$\rightarrow$",
          "–": "--", "…": r"\ldots{}", '"': "''"}


def as_markdown(frame: pd.DataFrame) -> str:
    lines = [[_cell(name) for name in frame.columns], ["---"] * len(frame.columns),
             *([_cell(value) for value in row] for row in frame.itertuples(index=False))]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def as_latex(frame: pd.DataFrame) -> str:
    """A plain tabular: no package is needed."""
    lines = [" & ".join(escape_latex(value) for value in row) + r" \\"
             for row in (frame.columns, *frame.itertuples(index=False))]
    head, *rest = lines
    return "\n".join([rf"\begin{{tabular}}{{{'l' * len(frame.columns)}}}", r"\hline", head, r"\hline", *rest, r"\hline",
                      r"\end{tabular}"])


def escape_latex(value: object) -> str:
    return "".join(_LATEX.get(letter, letter) for letter in _plain(value))


def draw_copies(frame: pd.DataFrame, key: str) -> None:
    """Two buttons that show the text, with a button to copy it at its right edge."""
    for name, write, language in (("Markdown", as_markdown, None), ("LaTeX", as_latex, "latex")):
        with st.popover(f"Copy as {name}", icon=":material/content_copy:", key=f"copy_{name}_{key}", type="tertiary"):
            st.caption("Copy it with the button at the text's right edge.")
            st.code(write(frame), language=language, height=300)


def _cell(value: object) -> str:
    text = _plain(value).replace("\\", "\\\\")
    return "".join(f"\\{letter}" if letter in "|*_`<[]" else letter for letter in text)


def _plain(value: object) -> str:
    """One line: a break inside a cell would end its row."""
    return " ".join(str(value).split())
