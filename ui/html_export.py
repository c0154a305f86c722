"""Figures as one HTML file that needs no network: charts that answer to the mouse, findings, where they come from."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from html import escape
from typing import Any

from ui.exhibits import Exhibit, tell_provenance
from ui.pictures import DARK, LIGHT, javascript, theme

POLICY = "default-src 'none'; script-src 'unsafe-inline' 'unsafe-eval'; style-src 'unsafe-inline'; img-src data: blob:"
"""What the file may do in a browser: run its own script. Nothing is fetched and nothing is sent."""
STYLE = """
:root { color-scheme: light dark; --text: #1c2733; --soft: #5b6876; --back: #fff; --line: #d5dce3 }
@media (prefers-color-scheme: dark) { :root { --text: #e4e9ee; --soft: #9aa5b1; --back: #12181f; --line: #35414d } }
body { font: 16px/1.5 "Source Sans Pro", "Noto Sans", sans-serif; color: var(--text); background: var(--back);
       max-width: 1000px; margin: 2.5rem auto; padding: 0 1.5rem }
h1 { font-size: 1.9rem; margin-bottom: .2rem } h2 { font-size: 1.25rem; line-height: 1.4; font-weight: 400 }
section { border-top: 1px solid var(--line); padding: 1rem 0 1.5rem }
.chart { width: 100%; min-height: 60px } .soft, li { color: var(--soft); font-size: .9rem } ul { padding-left: 1.2rem }
.note { white-space: pre-wrap } .trouble { border-left: 3px solid var(--line); padding-left: .8rem }
details summary { cursor: pointer; color: var(--soft); font-size: .9rem } table { border-collapse: collapse }
td, th { border-bottom: 1px solid var(--line); padding: .15rem .8rem .15rem 0; text-align: left; font-size: .85rem }
.rows { max-height: 22rem; overflow: auto } .vega-embed { width: 100% }
"""
DRAW = """
const dark = matchMedia('(prefers-color-scheme: dark)');
const {specs, themes} = JSON.parse(document.getElementById('specs').textContent);
window.views = {};
function draw() {
  for (const [id, spec] of Object.entries(specs))
    vegaEmbed('#' + id, spec, {config: themes[dark.matches ? 'dark' : 'light'], renderer: 'svg',
      actions: {export: true, source: false, compiled: false, editor: false}
    }).then(drawn => { window.views[id] = drawn.view });
}
dark.addEventListener('change', draw);
draw();
"""
ROWS_SHOWN = 500


def make_html(title: str, exhibits: Sequence[tuple[Exhibit, str]], made_at: str) -> str:
    """Each exhibit with a person's note on it, which may be empty. What is shown as text stays text."""
    specs = {f"chart{at}": _flexible(exhibit.spec)
             for at, (exhibit, _) in enumerate(exhibits) if exhibit.spec}
    content = {"specs": specs, "themes": {"light": theme(LIGHT), "dark": theme(DARK)}}
    sections = "".join(_section(f"chart{at}", exhibit, note) for at, (exhibit, note) in enumerate(exhibits))
    script = javascript().replace("</script", "<\\/script") if specs else ""
    return (f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8">\n'
            f'<meta http-equiv="Content-Security-Policy" content="{escape(POLICY)}">\n'
            f'<meta name="viewport" content="width=device-width"><title>{escape(title)} · PhaseLab</title>\n'
            f"<style>{STYLE}</style></head>\n<body><h1>{escape(title)}</h1>\n"
            f'<p class="soft">PhaseLab, {escape(made_at)}. This file needs no network.</p>\n{sections}\n'
            f'<script id="specs" type="application/json">{_inside_script(content)}</script>\n'
            f'<script type="module">{script}\n{DRAW if specs else ""}</script>\n</body></html>\n')


def _section(place: str, exhibit: Exhibit, note: str) -> str:
    parts = [f"<h2>{as_html(exhibit.sentence)}</h2>" if exhibit.sentence else ""]
    if exhibit.trouble:
        parts.append(f'<p class="trouble">{escape(exhibit.trouble)}</p>')
    elif exhibit.spec:
        parts.append(f'<div class="chart" id="{place}"></div>')
    if note:
        parts.append(f'<p class="note">{escape(note)}</p>')
    if exhibit.note:
        parts.append(f'<p class="soft">{as_html(exhibit.note)}</p>')
    told = tell_provenance(exhibit.sweeps)
    parts.append(f'<p class="soft">{escape(exhibit.label)}. As of {escape(exhibit.shown_at)}. '
                 + ("Measured in:" if told else "" if exhibit.trouble else "No sweep of this lab is behind it: "
                    "published or predicted figures, or this machine's state.") + "</p>")
    if told:
        parts.append("<ul>" + "".join(f"<li>{escape(sentence)}</li>" for sentence in told) + "</ul>")
    if exhibit.rows:
        parts.append(_table(exhibit))
    return "<section>" + "\n".join(filter(None, parts)) + "</section>\n"


def _table(exhibit: Exhibit) -> str:
    heads = "".join(f"<th>{escape(str(name))}</th>" for name in exhibit.columns)
    lines = ["".join(f"<td>{escape('' if value is None else str(value))}</td>" for value in row)
             for row in exhibit.rows[:ROWS_SHOWN]]
    rows = "".join(f"<tr>{line}</tr>" for line in lines)
    count = len(exhibit.rows)
    more = f", the first {ROWS_SHOWN} of them here" if count > ROWS_SHOWN else ""
    shut, what = ("", "rows behind it") if exhibit.spec else (" open", "rows")
    return (f"<details{shut}><summary>The {count:,} {what}{more}</summary>"
            f'<div class="rows"><table><tr>{heads}</tr>{rows}</table></div></details>')


def as_html(sentence: str) -> str:
    """The little Markdown that sentences use: bold, code and escaped signs. All else is text."""
    # ui.frame.safe writes < as &lt; and puts a backslash before signs: both are undone, then everything is escaped.
    pieces = re.split(r"(\*\*|`|\\.)", sentence.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&"))
    out, open_tags = [], {"**": "strong", "`": "code"}
    state = dict.fromkeys(open_tags, False)
    for piece in pieces:
        if piece in open_tags:
            out.append(f"</{open_tags[piece]}>" if state[piece] else f"<{open_tags[piece]}>")
            state[piece] = not state[piece]
        else:
            out.append(escape(piece[1:] if piece.startswith("\\") and len(piece) == 2 else piece))
    return "".join(out) + "".join(f"</{open_tags[mark]}>" for mark, is_open in state.items() if is_open)


def as_text(sentence: str) -> str:
    """The same sentence without any marks."""
    return re.sub(r"\\(.)|\*\*|`", lambda found: found[1] or "", sentence).replace("&lt;", "<").replace(
        "&gt;", ">").replace("&amp;", "&")


def _flexible(spec: dict[str, Any]) -> dict[str, Any]:
    return {**spec, "width": "container", "autosize": {"type": "fit-x", "contains": "padding"}}


def _inside_script(content: Any) -> str:
    """JSON that cannot end the element it stands in."""
    return json.dumps(content).replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
