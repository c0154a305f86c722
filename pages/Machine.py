"""Machine: what this machine can measure, what is missing, and what the lab has written."""

import streamlit as st

from begin import begin
from engine.doctor import examine
from store.queries import count_rows, list_problems
from ui.frame import safe
from ui.units import size

lab = begin("Machine")
report = examine(lab.home)
with st.container(horizontal=True):
    st.metric("Cores for the lab", f"{report['cores_allowed']:g}", border=True)
    st.metric("Memory limit", size(report["memory_limit_bytes"]), border=True)
    st.metric("GPUs", len(report["gpus"]), border=True)
    st.metric("Free disk", size(report["free_disk_bytes"]), border=True)
st.markdown(f"{safe(report['cpu'] or 'unknown CPU')} · Python {report['python']} · driver {report['driver'] or 'none'}")
for sentence in report["missing"]:
    st.info(f"Missing: {safe(sentence)}", icon=":material/info:")

left, right = st.columns(2)
with left:
    st.subheader("Libraries")
    st.table({name: version or "not installed" for name, version in report["libraries"].items()}, border="horizontal")
with right:
    st.subheader("What the lab has written")
    used = {"Journals": lab.home.sweeps, "Images and weights": lab.home.cache, "Store": lab.home.store}
    st.table({name: size(sum(f.stat().st_size for f in path.rglob("*") if f.is_file()) if path.is_dir()
                         else path.stat().st_size if path.exists() else 0) for name, path in used.items()},
             border="horizontal")
    st.caption(f"In {lab.home.root}")
    st.table({table: f"{count:,} rows" for table, count in count_rows(lab.ask).items() if count}, border="horizontal")
for problem in list_problems(lab.ask):
    st.warning(f"{safe(problem['journal'])}: {safe(problem['problem'] or 'its end was torn off when its writer died')}")
