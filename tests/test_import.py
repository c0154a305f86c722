"""Measurements made elsewhere: what is right comes in as a sweep that rebuilds; what is wrong is one sentence."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from driven_lab import Lab

from engine.home import Home
from engine.importing import import_content
from engine.measurement_file import MOST_BYTES, read_measurements, unit_of
from engine.params import InputError
from engine.registry import find
from store.database import Store
from tests.store.journal_builder import rows_of

HEADER = "model,batch_size,workers,end_to_end_s,load_data_s"
GOOD = f"""{HEADER}
resnet18,32,1,10.0,5
resnet18,32,1,11.0,5.5
resnet18,64,2,8.0,4
"""


def read(text: str | bytes) -> Any:
    return read_measurements(text.encode() if isinstance(text, str) else text, "file.csv", find("inference"))


def problem(text: str | bytes) -> str:
    with pytest.raises(InputError) as found:
        read(text)
    return str(found.value)


def write(lab: Lab, text: str, name: str = "made.csv") -> str:
    path = lab.home.root.parent / name
    path.write_text(text)
    return str(path)


def test_an_import_is_a_sweep_that_rebuilds(lab: Lab) -> None:
    answer = lab.json("import", write(lab, GOOD), "--experiment", "inference", "--name", "made elsewhere")
    assert answer["runs"] == 3
    (sweep,) = lab.json("sweeps")["sweeps"]
    assert (sweep["sweep_id"], sweep["name"], sweep["source"]) == (answer["sweep_id"], "made elsewhere", "imported")
    assert sweep["status"] == "finished" and sweep["runs"] == {"ok": 3}
    runs = lab.json("runs", "--sweep", answer["sweep_id"])["runs"]
    assert sorted((run["params"]["batch_size"], run["repeat"], run["metrics"]["end_to_end_s"]) for run in runs) == \
        [(32, 1, 10.0), (32, 2, 11.0), (64, 1, 8.0)]
    assert all(not run["environment_id"] and run["noisy"] is None and run["wall_s"] is None for run in runs)
    with Store.open(lab.home) as store:
        before = rows_of(store.connection)
    lab.json("rebuild")
    with Store.open(lab.home) as store:
        assert rows_of(store.connection) == before


def test_while_another_process_has_the_store_the_journal_is_left_for_it(lab: Lab) -> None:
    with Store.open(lab.home) as store:
        answer = lab.json("import", write(lab, GOOD), "--experiment", "inference")
        store.ingest()
        assert store.connection.execute("SELECT count(*) FROM runs WHERE sweep_id = ?",
                                        [answer["sweep_id"]]).fetchone() == (3,)


def test_runs_of_this_machine_do_not_go_into_an_imported_sweep(lab: Lab) -> None:
    sweep_id = lab.json("import", write(lab, GOOD), "--experiment", "inference")["sweep_id"]
    extension = lab.sweep_file(experiment="inference", grid={"batch_size": [8]})
    for command in (("resume", sweep_id), ("extend", sweep_id, extension)):
        assert "was imported" in lab.json(*command, expect=2)["error"]


def test_a_loss_and_a_score_may_be_negative() -> None:
    (row,) = read("batch_size,loss,score\n32,-1.5,-2\n").rows
    assert row.figures == {"loss": -1.5, "score": -2.0}


@pytest.mark.parametrize(("text", "said"), [
    ("", "is empty"),
    ("\n\n", "is empty"),
    (HEADER + "\n", "no rows"),
    ("32,1,10.0\n64,1,9.0\n", "line 1: column 32 is unknown"),
    ("model,batchsize,end_to_end_s\nresnet18,1,2\n", "line 1: column batchsize is unknown; did you mean batch_size?"),
    ("model,time_ms\nresnet18,1\n", "line 1: column time_ms is unknown"),
    ("model,_s\nresnet18,1\n", "line 1: column _s is unknown"),
    ("model,batch_size\nresnet18,1\n", "line 1: has no measured column"),
    ("model,model,end_to_end_s\na,b,1\n", "line 1: column model is there twice"),
    ("model,,end_to_end_s\na,b,1\n", "line 1: column 2 has no name"),
    ("model;end_to_end_s\nresnet18;1\n", "separated by commas"),
    (GOOD + "resnet18,32,4,-1,2\n", "line 5: end_to_end_s=-1: must not be negative"),
    ("batch_size,end_to_end_s,items\n32,1,-640\n", "line 2: items=-640: must not be negative"),
    ("batch_size,end_to_end_s,count\n32,1,-1\n", "line 2: count=-1: must not be negative"),
    ("batch_size,end_to_end_s,max_batch_size\n32,1,-1\n", "line 2: max_batch_size=-1: must not be negative"),
    ("batch_size,end_to_end_s,accuracy\n32,1,-0.5\n", "line 2: accuracy=-0.5: must not be negative"),
    (GOOD + "resnet18,32,4,0,2\n", "line 5: end_to_end_s=0: must be more than 0"),
    (GOOD + "resnet18,32,4,fast,2\n", "line 5: end_to_end_s=fast: must be a number"),
    (GOOD + "resnet18,32,4,nan,2\n", "line 5: end_to_end_s=nan: must be a number"),
    (GOOD + "resnet18,32,4,1e999,2\n", "line 5: end_to_end_s=1e999: must be a number"),
    (GOOD + "resnet18,32,4,1_000,2\n", "must be a number"),
    (GOOD + 'resnet18,32,4,"1,5",2\n', "line 5: end_to_end_s=1,5: must be a number"),
    (GOOD + "resnet18,many,4,1,2\n", "line 5: batch_size="),
    (GOOD + "resnet18,0,4,1,2\n", "line 5: batch_size=0: must be 1 to 65536"),
    (GOOD + "resnet18,,4,1,2\n", "line 5: batch_size is empty"),
    (GOOD + "resnet19,32,4,1,2\n", "line 5: model=resnet19: no such model; did you mean resnet18?"),
    (GOOD + "resnet18,32,4,1\n", "line 5: has 4 values under 5 headings"),
    (GOOD + "resnet18,32,4,,\n", "line 5: measures nothing"),
    (GOOD + "\nresnet18,32,1,10.0,5.0\n", "line 6: the same run as line 2"),
    (GOOD + 'resnet18,32,"1,2,3\n', "line 5: is not CSV"),
    (GOOD.encode("utf-16"), "is UTF-16"),
    (GOOD.encode() + b"resnet18,\xff,1,1,1\n", "line 5: is not UTF-8"),
    (GOOD.encode() + b"resnet18,\0,1,1,1\n", "line 5: holds a zero byte"),
    (b"x" * (MOST_BYTES + 1), "bytes, more than"),
    ("repeat,end_to_end_s\n1,2\n1,3\n", "line 3: the same run as line 2"),
    ("repeat,end_to_end_s\nfirst,2\n", "line 2: repeat=first: must be 1, 2, 3")])
def test_what_is_wrong_is_one_sentence_with_its_line(text: str | bytes, said: str) -> None:
    sentence = problem(text)
    assert sentence.startswith("file.csv") and said in sentence and "\n" not in sentence


def test_nothing_is_written_for_a_file_that_is_wrong(lab: Lab) -> None:
    lab.home.root.mkdir(parents=True)
    file = write(lab, GOOD + "resnet18,32,4,-1,2\n")
    answer = lab.json("import", file, "--experiment", "inference", expect=2)
    assert "line 5" in answer["error"] and lab.files() == set()
    for arguments, said in ((("missing.csv", "--experiment", "inference"), "no such file"),
                            ((str(lab.home.root), "--experiment", "inference"), "cannot be read"),
                            ((file, "--experiment", "inferense"), "did you mean inference?")):
        assert said in lab.json("import", *arguments, expect=2)["error"]
    assert lab.files() == set()


def test_rows_of_one_cell_are_repeats_and_equal_ones_need_a_repeat_column() -> None:
    assert [row.repeat for row in read(GOOD).rows] == [1, 2, 1]
    assert [row.repeat for row in read("repeat,end_to_end_s\n1,2.0\n2,2.0\n").rows] == [1, 2]


def test_how_tables_are_written_elsewhere() -> None:
    """A byte-order mark, other line ends, spaces, whole numbers with a decimal point, quotes, empty figures."""
    found = read(b"\xef\xbb\xbf" + b'model, batch_size ,workers,end_to_end_s,accuracy\r\n'
                 b'"resnet18", 32.0 ,+2, 1.5e1 ,\r\n')
    (row,) = found.rows
    assert (row.cell.params.batch_size, row.cell.params.workers) == (32, 2)
    assert row.figures == {"end_to_end_s": 15.0} and row.line == 2
    assert [unit_of(name) for name in ("end_to_end_s", "peak_memory_bytes", "items_per_s", "accuracy")] == \
        ["s", "bytes", "items/s", ""]
    assert read("compile,end_to_end_s,batches\nTrue,1,\n").rows[0].cell.params.compile is True


def test_many_rows_come_in(tmp_path: Path) -> None:
    home = Home(tmp_path / "lab")
    rows = "".join(f"resnet18,{1 + number % 500},{number % 9},{1 + number},1\n" for number in range(9_000))
    sweep_id, count = import_content(home, (HEADER + "\n" + rows).encode(), "large.csv", "inference")
    assert count == 9_000
    with Store.open(home) as store:
        store.ingest()
        assert store.connection.execute("SELECT count(*), count(DISTINCT run_id) FROM runs").fetchone() == (9000, 9000)
        spec = json.loads(store.connection.execute("SELECT spec FROM sweeps").fetchall()[0][0])
    assert spec["repeats"] == 2 and len(spec["grid"]["batch_size"]) == 500 and home.sweep_ids() == [sweep_id]


def test_an_export_name_with_a_formula_or_markup_stays_a_name(lab: Lab) -> None:
    answer = lab.json("import", write(lab, GOOD), "--experiment", "inference", "--name", "=1+1 <script>")
    assert lab.json("sweeps")["sweeps"][0]["name"] == "=1+1 <script>" and answer["runs"] == 3
    assert "200" in lab.json("import", write(lab, GOOD), "--experiment", "inference", "--name", "x" * 201,
                             expect=2)["error"]
