"""A sweep from YAML into cells and runs; every wrong input is one sentence and nothing else."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.home import PROJECT
from engine.params import InputError
from engine.spec import SweepSpec, make_cells, make_spec, parse_spec, plan_runs, read_spec

GRID = "grid: {batch_size: [32, 128]}\n"
START = "experiment: inference\n"


def refusal(text: str) -> str:
    """The sentence for a sweep that is refused, whether at once or when its cells are made."""
    with pytest.raises(InputError) as caught:
        make_cells(parse_spec(text))
    sentence = str(caught.value)
    assert "\n" not in sentence
    return sentence


def runs_of(spec: SweepSpec) -> list[Any]:
    return plan_runs(make_cells(spec), spec.repeats, spec.order, spec.order_seed)


# -- good sweeps -------------------------------------------------------------------------------------------------------


def test_yaml_file_becomes_cells_and_runs(tmp_path: Path) -> None:
    file = tmp_path / "sweep.yaml"
    file.write_text(
        "experiment: inference\nname: größe × workers\n"
        "grid: {model: [resnet18, resnet50], batch_size: [32, 128], workers: [1, 2, 4]}\n"
        "fixed: {data: generated, image_size: 64, batches: 50}\nrepeats: 3\norder: as_listed\nexecutor: local\n",
        encoding="utf-8")
    spec = read_spec(file)
    assert spec.name == "größe × workers"
    cells = make_cells(spec)
    asked = [(cell.params.model, cell.params.batch_size, cell.params.workers) for cell in cells]
    assert asked == list(itertools.product(["resnet18", "resnet50"], [32, 128], [1, 2, 4]))
    assert {(c.params.image_size, c.params.batches) for c in cells} == {(64, 50)}
    assert len({cell.key for cell in cells}) == 12
    runs = runs_of(spec)
    assert [(run.cell.key, run.repeat) for run in runs] == [(c.key, r) for r in (1, 2, 3) for c in cells]
    assert spec.number_of_runs == 36


def test_every_preset_is_a_sweep() -> None:
    files = sorted((PROJECT / "presets").glob("*.yaml"))
    assert files
    for file in files:
        assert len(runs_of(read_spec(file))) > 0, file.name


def test_specification_survives_being_written_down() -> None:
    """A sweep is kept as JSON and read again when it is resumed: the plan must be the same one."""
    spec = parse_spec(START + "grid: {batch_size: [1, 2], threads: [null, 3]}\nrepeats: 2\norder_seed: 7\nname: 'ß'\n")
    again = SweepSpec.model_validate(json.loads(json.dumps(spec.model_dump(mode="json"))))
    assert again == spec
    assert runs_of(again) == runs_of(spec)


GRIDS = st.fixed_dictionaries({}, optional={
    "batch_size": st.lists(st.integers(1, 9), min_size=1, max_size=4, unique=True),
    "workers": st.lists(st.integers(0, 9), min_size=1, max_size=3, unique=True),
    "threads": st.lists(st.none() | st.integers(1, 3), min_size=1, max_size=3, unique=True),
    "precision": st.lists(st.sampled_from(["fp32", "bf16"]), min_size=1, max_size=2, unique=True),
}).filter(bool)


@settings(max_examples=60)
@given(grid=GRIDS, repeats=st.integers(1, 4), order=st.sampled_from(["random", "as_listed"]), seed=st.integers(0, 2**9))
def test_number_of_runs_is_what_is_planned(grid: dict[str, list[Any]], repeats: int, order: str, seed: int) -> None:
    spec = make_spec({"experiment": "inference", "grid": grid, "repeats": repeats, "order": order, "order_seed": seed})
    runs = runs_of(spec)
    assert spec.number_of_runs == len(runs)
    assert len({(run.cell.key, run.repeat) for run in runs}) == len(runs)
    cells = make_cells(spec)
    # Each repeat is a complete pass over all cells before the next begins.
    for repeat in range(repeats):
        one_pass = runs[repeat * len(cells) : (repeat + 1) * len(cells)]
        assert {run.repeat for run in one_pass} == {repeat + 1}
        assert Counter(run.cell.key for run in one_pass) == Counter(cell.key for cell in cells)
    assert runs_of(spec) == runs, "the order is the same for the same order_seed"


def test_random_order_follows_the_seed() -> None:
    def order(seed: int) -> list[tuple[str, int]]:
        spec = make_spec({"experiment": "inference", "grid": {"batch_size": list(range(1, 21))}, "repeats": 2,
                          "order_seed": seed})
        return [(run.cell.key, run.repeat) for run in runs_of(spec)]

    assert order(5) == order(5)
    assert order(5) != order(6)
    first, second = order(5)[:20], order(5)[20:]
    assert [key for key, _ in first] != [key for key, _ in second], "each pass is shuffled anew"


def test_huge_grid_is_counted_and_not_made() -> None:
    values = list(range(1, 1001))
    spec = make_spec({"experiment": "inference", "repeats": 1000, "grid": {
        "batch_size": values, "seed": values, "batches": values, "image_size": values}})
    assert spec.number_of_runs == 10**15


def test_same_cell_has_the_same_key_however_the_sweep_says_it() -> None:
    swept = parse_spec(START + "grid: {batch_size: [64], workers: [2], seed: [0]}")
    fixed = parse_spec(START + "grid: {batch_size: [64]}\nfixed: {model: resnet18}")
    assert make_cells(swept)[0].key == make_cells(fixed)[0].key


# -- wrong input -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("text", "expected"), [
    ("experiment: inferense\n" + GRID, "experiment=inferense: no such experiment; did you mean inference? (there are"),
    ("experiment: ../../lab\n" + GRID, "experiment=../../lab: no such experiment"),
    (GRID, "experiment: a sweep needs it; name one, for example experiment: inference"),
    ("experiment:\n" + GRID, "experiment=null: must be"),
    (START + "grid: {model: [resnet18, resnet51]}", "model=resnet51: no such model; did you mean resnet"),
    (START + GRID + "fixed: {model: lenet}", "model=lenet: no such model"),
    (START + GRID + "fixed: {model: bert}", "model=bert: reads text, not images; choose one of resnet18,"),
    (START + "grid: {batchsize: [1]}", "batchsize: inference has no such parameter; did you mean batch_size? (it has "),
    (START + GRID + "fixed: {colour: red}", "colour: inference has no such parameter (it has threads, seed, model"),
    (START + GRID + "repeat: 3", "repeat: a sweep has no such entry; did you mean repeats? (it has experiment, name"),
    (START + GRID + "zzz: 3", "zzz: a sweep has no such entry (it has experiment"),
    (START + GRID + "limits: {run: 3}", "limits.run=3: "),
], ids=lambda value: None)
def test_unknown_names(text: str, expected: str) -> None:
    assert refusal(text).startswith(expected)


@pytest.mark.parametrize(("text", "expected"), [
    ("grid: {batch_size: [32, 0]}", "batch_size=0: must be 1 to 65536"),
    ("grid: {batch_size: [65537]}", "batch_size=65537: must be 1 to 65536"),
    ("grid: {batch_size: [true]}", "batch_size=true: must be 1 to 65536"),
    ("grid: {batch_size: [1.5]}", "batch_size=1.5: must be 1 to 65536"),
    ("grid: {batch_size: [.nan]}", "batch_size=NaN: must be 1 to 65536"),
    ("grid: {batch_size: [[32]]}", "batch_size=[32]: must be 1 to 65536"),
    ("grid: {batch_size: [2020-01-01]}", 'batch_size="2020-01-01": must be 1 to 65536'),
    ("grid: {precision: [fp64]}", "precision=fp64: must be one of fp32, bf16, fp16"),
    ("grid: {device: [gpu]}", "device=gpu: must be auto, cpu, cuda or cuda:N"),
    (GRID + "fixed: {workers: -1}", "workers=-1: must be 0 to 512"),
    (GRID + "fixed: {threads: 0}", "threads=0: must be 1 to 1024"),
    (GRID + "repeats: 0", "repeats=0: must be 1 to 1000"),
    (GRID + "repeats: 1001", "repeats=1001: must be 1 to 1000"),
    (GRID + "order: sideways", "order=sideways: must be one of random, as_listed"),
    (GRID + "executor: ray", "executor=ray: must be one of local"),
    (GRID + "limits: {run_s: 0}", "limits.run_s=0: "),
    (GRID + "limits: {silence_s: .nan}", "limits.silence_s=NaN: "),
    (GRID + "fixed: {batches: 2, images: 300}", "batches and images are both given; keep one of them (in the cell "),
    ("grid: {images: [31]}", "images=31: fewer than one batch of 32; ask for more images (in the cell images=31)"),
], ids=lambda value: None)
def test_values_out_of_range(text: str, expected: str) -> None:
    assert refusal(START + text).startswith(expected)


@pytest.mark.parametrize("grid", ["", "grid:\n", "grid: {}\n", "grid: []\n", "grid: {batch_size: []}\n",
                                  "grid: {batch_size: [1], workers: []}\n", "grid: null\n"])
def test_empty_grid_in_all_guises(grid: str) -> None:
    sentence = refusal(START + grid)
    assert sentence.startswith("grid")
    assert "is empty; " in sentence


@pytest.mark.parametrize("grid", ["''", "0", "false", "[{batch_size: [1]}]", "batch_size"])
def test_grid_that_is_no_mapping(grid: str) -> None:
    assert ": must be a mapping" in refusal(START + f"grid: {grid}")


@pytest.mark.parametrize(("values", "shown"), [("32", "32"), ("resnet18", "resnet18"), ("{a: 1}", '{"a": 1}')])
def test_grid_value_that_is_no_list(values: str, shown: str) -> None:
    assert refusal(START + f"grid: {{batch_size: {values}}}") == (
        f"grid.batch_size={shown}: must be a list of values; write [{shown}], or move it to `fixed`")


def test_parameter_in_both_grid_and_fixed() -> None:
    assert refusal(START + GRID + "fixed: {batch_size: 3}") == (
        "batch_size: is in both grid and fixed; keep one of them")


@pytest.mark.parametrize("grid", ["{batch_size: [32, 64, 32]}", "{threads: [null, null]}", "{batch_size: [0x20, 32]}"])
def test_value_listed_twice(grid: str) -> None:
    assert "is there twice; remove the repeated value and use `repeats`" in refusal(START + f"grid: {grid}")


def test_cell_that_cannot_be_is_named_before_anything_starts() -> None:
    sentence = refusal(START + "grid: {model: [resnet18, vit_b_16], image_size: [64, 100]}")
    assert sentence.startswith("image_size=100: vit_b_16 cuts images into patches of 16 px")
    assert sentence.endswith("(in the cell model=vit_b_16, image_size=100)")


@pytest.mark.parametrize("text", ["{", "a: b: c", "\t- x", "experiment: [", "a: 1\n b: 2", "\0", "a: \x01", "%",
                                  "a: 1\n---\nb: 2", "? [a]\n: 1", "!!python/name:os.system ",
                                  "!!python/object/apply:os.system ['echo']", "!!nonsense 3"])
def test_what_is_not_yaml(text: str) -> None:
    assert refusal(text).startswith("the sweep: is not YAML")


def test_place_of_the_mistake_is_told() -> None:
    assert refusal("experiment: inference\ngrid: {batch_size: [32}\n") == (
        "the sweep: is not YAML at line 2; check the indentation and brackets there")


@pytest.mark.parametrize("text", ["", "# nothing", "null", "5", "inference", "- experiment: inference", "'{}'"])
def test_what_is_not_a_mapping(text: str) -> None:
    assert refusal(text) == "the sweep: must hold entries such as `experiment: inference` and `grid: ...`"


@pytest.mark.parametrize("text", ["!!int abc", "a: 2020-13-45", "a: " + "9" * 5000, "[" * 500])
def test_values_that_yaml_itself_cannot_make(text: str) -> None:
    assert refusal(text).startswith("the sweep: holds a value that cannot be read (")


def test_python_objects_are_never_built(tmp_path: Path) -> None:
    trace = tmp_path / "was-here"
    for tag in ("object/apply:os.system", "object/new:os.system", "object/apply:subprocess.getoutput"):
        file = tmp_path / "evil.yaml"
        file.write_text(START + f"grid: !!python/{tag} ['touch {trace}']\n")
        with pytest.raises(InputError):
            read_spec(file)
    assert not trace.exists()


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    binary, wide = tmp_path / "image.jpg", tmp_path / "utf16.yaml"
    binary.write_bytes(bytes(range(256)) * 4)
    wide.write_bytes((START + GRID).encode("utf-16"))
    for file, words in [(tmp_path / "missing.yaml", "no such file"), (tmp_path, "cannot be read"),
                        (binary, "cannot be read"), (wide, "cannot be read")]:
        with pytest.raises(InputError) as caught:
            read_spec(file)
        sentence = str(caught.value)
        assert sentence.startswith(f"{file}: {words}")
        assert sentence.endswith("; give the path of a sweep's YAML file")
        assert "\n" not in sentence


def test_byte_order_mark_is_no_mistake(tmp_path: Path) -> None:
    file = tmp_path / "windows.yaml"
    file.write_bytes(b"\xef\xbb\xbf" + (START + GRID).replace("\n", "\r\n").encode())
    assert read_spec(file).number_of_runs == 2


WORDS = st.sampled_from(["experiment", "inference", "grid", "fixed", "batch_size", "32", "null", "[]", "{}", "[1]", "-",
                         ":", ": ", "\n", "  ", "{", "}", "[", "]", ",", "&a ", "'", '"', "!!set", "2020-01-01", "é"])


@settings(max_examples=200)
@given(st.lists(WORDS, max_size=12).map("".join))
def test_any_text_is_a_sweep_or_refused(text: str) -> None:
    try:
        parse_spec(text)
    except InputError as error:
        assert "\n" not in str(error)


# -- wrong input made to hurt ------------------------------------------------------------------------------------------


def in_small_process(text: str) -> str:
    """The sentence from a process that may use one gigabyte and three seconds of processor time."""
    code = ("import resource, sys\n"
            "resource.setrlimit(resource.RLIMIT_AS, (2**30, 2**30))\n"
            "resource.setrlimit(resource.RLIMIT_CPU, (3, 3))\n"
            "from engine.params import InputError\nfrom engine.spec import parse_spec\n"
            "try:\n    parse_spec(sys.stdin.read())\nexcept InputError as error:\n    print(error)\n")
    done = subprocess.run([sys.executable, "-c", code], input=text, cwd=PROJECT, capture_output=True, text=True)
    assert done.returncode == 0, f"ended with {done.returncode}: {done.stderr[-300:]}"
    return done.stdout


def bomb(inner: str, form: str) -> str:
    """A small text of nested anchors that stands for a billion values."""
    for depth in range(1, 10):
        inner = form.format(f"&a{depth} {inner}, " + ", ".join([f"*a{depth}"] * 9))
    return inner


def test_aliases_bomb_in_an_unknown_entry_is_refused_at_once() -> None:
    assert in_small_process(START + GRID + f"zzz: {bomb('[x, x]', '[{}]')}").count("\n") == 1


@pytest.mark.parametrize("text", [
    f"grid: {{batch_size: [{bomb('[x, x]', '[{}]')}]}}", GRID + f"fixed: {{model: {bomb('[x, x]', '[{}]')}}}",
    GRID + f"tags: {bomb('[x, x]', '[{}]')}", GRID + f"fixed: {bomb('{x: 1}', '{{<<: [{}]}}')}",
], ids=["grid", "fixed", "tags", "merge keys"])
def test_aliases_bomb_does_not_hang(text: str) -> None:
    assert in_small_process(START + text).count("\n") == 1


@pytest.mark.parametrize("text", [GRID + "fixed: &a {model: *a}", "grid: &a {batch_size: [*a]}",
                                  "grid: &a {batch_size: *a}"])
def test_circle_of_aliases(text: str) -> None:
    refusal(START + text)


@pytest.mark.parametrize("text", ["a: !!bool maybe", "a: !!timestamp noon"])
def test_tagged_values_that_do_not_fit(text: str) -> None:
    assert refusal(text).startswith("the sweep: ")


@pytest.mark.parametrize("text", ["a: !!int ''", "a: !!float ''"])
def test_tagged_values_that_are_empty(text: str) -> None:
    assert refusal(text).startswith("the sweep: ")


@pytest.mark.parametrize("value", ["{2020-01-01: 1}", "0x" + "F" * 6000])
def test_values_that_json_cannot_write(value: str) -> None:
    assert refusal(START + GRID + f"fixed: {{workers: {value}}}").startswith("workers=")


@pytest.mark.parametrize("text", [START + 'grid: {"a\\nb": [1]}', START + 'grid: {model: ["a\\nb"]}',
                                  START + GRID + '"x\\ny": 1', 'experiment: "a\\nb"\n' + GRID])
def test_line_breaks_stay_out_of_the_sentence(text: str) -> None:
    refusal(text)


@pytest.mark.parametrize("text", ["grid: {batch_size: [1], batch_size: [2]}", GRID + GRID])
def test_entry_given_twice(text: str) -> None:
    assert "twice" in refusal(START + text)


@pytest.mark.parametrize("limits", ["5", "", "[1]"])
def test_limits_that_are_no_mapping(limits: str) -> None:
    assert refusal(START + GRID + f"limits: {limits}").startswith(f"limits={limits or 'null'}: ")


@pytest.mark.parametrize("tags", ["[" + "x, " * 60 + "]", "[1]", "x"])
def test_sentence_for_tags_speaks_of_tags(tags: str) -> None:
    assert "characters" not in refusal(START + GRID + f"tags: {tags}")
