"""Where a search spends its time: full, partial, joint and separate models, images and text, states from disk."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from measured_run import MeasuredRun

from engine.experiments.bottleneck import Params, check, prepare, run
from engine.file_cache import cached_share, set_cache
from engine.params import InputError
from engine.search_models import build_blocks
from engine.states import load_state, save_state

IMAGES: dict[str, Any] = {"items": 20, "batch_size": 8, "image_size": 32, "workers": 0, "threads": 1}
TEXTS: dict[str, Any] = {"model": "bert", "items": 20, "batch_size": 8, "tokens": 8, "text_layers": 4, "text_width": 64,
                         "workers": 0, "threads": 1}
GROUPS = ("init_model_s", "load_state_s", "model_to_device_s", "score_s")


def measure(folder: Path, cache: Path, **values: Any) -> MeasuredRun:
    params = Params(**values)
    check([params], cache)
    prepare([params], cache, lambda done, total: None)
    measured = MeasuredRun(folder, cache)
    run(params, measured.recorder)
    return measured


@pytest.mark.parametrize("base", [IMAGES, TEXTS], ids=["images", "text"])
def test_one_whole_model(base: Any, tmp_path: Path, image_cache: Path) -> None:
    measured = measure(tmp_path, image_cache, **base)
    found = measured.metrics()
    assert measured.items() == [8, 8, 4]
    assert measured.phase_names() == {"load_data", "data_to_device", "inference"}
    assert all(found[name] > 0 for name in GROUPS)
    assert 0 <= found["score_linear_top1"] <= 1
    # Every value comes from the file: four bytes per parameter, batch statistics and positions besides.
    assert found["state_bytes"] >= 4 * found["parameters_in_memory"]
    assert found["load_state_computed_s"] == found["state_bytes"] / 1e9
    assert found["state_cached_share"] == 1
    assert measured.effective()["runs"] == "stem to head"


@pytest.mark.parametrize("base", [IMAGES, {**TEXTS, "model": "roberta"}], ids=["images", "text"])
@pytest.mark.parametrize(("part", "share_by", "images", "text"), [
    ("last_50%", "blocks", "layer3.0 to head", "layer.2 to head"),
    ("last_50%", "parameters", "layer4.0 to head", "layer.2 to head"),
    ("last_25%", "compute", "layer3.1 to head", "layer.3 to head"),
    ("last_3_blocks", "blocks", "layer3.1 to head", "layer.1 to head"),
    ("last_1_block", "blocks", "layer4.1 to head", "layer.3 to head")])
def test_a_part_runs_on_activations_of_the_right_shape(
        base: Any, part: str, share_by: str, images: str, text: str, tmp_path: Path, image_cache: Path) -> None:
    """Of resnet18's blocks the last one has 4.7 of 11.2 million parameters; the last stage does 3.56 of 14.67 units of
    compute, a little less than a quarter."""
    measured = measure(tmp_path, image_cache, **base, part=part, share_by=share_by)
    found = measured.metrics()
    assert measured.effective()["runs"] == (text if "tokens" in base else images)
    assert measured.phase_names() == {"data_to_device", "inference"}, "nothing is loaded"
    assert measured.items() == [8, 8, 4]
    assert "score_linear_top1" not in found, "one batch again and again says nothing"
    assert found["score_s"] > 0 and found["models_searched"] == 1
    assert found["state_bytes"] < 4 * 11_000_000


def test_joint_models_score_what_separate_ones_score(tmp_path: Path, image_cache: Path) -> None:
    """The same models, the shared blocks once or as often as there are models."""
    several = {**IMAGES, "part": "last_3_blocks", "models": 3}
    joint = measure(tmp_path / "a", image_cache, **several, arrangement="joint")
    separate = measure(tmp_path / "b", image_cache, **several, arrangement="separate")
    whole = measure(tmp_path / "c", image_cache, **IMAGES).metrics()
    found, expected = joint.metrics(), separate.metrics()
    assert (joint.items(), separate.items()) == ([8, 8, 4], [8, 8, 4] * 3)
    assert found["models_searched"] == expected["models_searched"] == 3
    assert found["score_linear_top1"] == pytest.approx(expected["score_linear_top1"])
    assert expected["state_bytes"] == 3 * whole["state_bytes"] > found["state_bytes"] > whole["state_bytes"]
    # Another model is prepared while the clock stands still.
    between = ["measure", "init_model", "measure", "prepare_data", "measure", "load_state", "measure",
               "model_to_device", "measure", "warm_up"]
    assert separate.stages()[-2 - 2 * len(between) : -2] == between * 2


def test_the_models_of_a_search_differ_in_their_own_part_only(tmp_path: Path, image_cache: Path) -> None:
    import torch

    params = Params(**IMAGES, part="last_1_block", arrangement="joint", models=2)
    prepare([params], image_cache, lambda done, total: None)
    states = []
    for number in range(2):
        blocks, _ = build_blocks(params.network, empty=False)
        load_state(blocks, params.network.state_file(image_cache, 0, 8))
        if number:
            load_state(blocks[8:], params.network.state_file(image_cache, 1, 8))
        states.append({f"{block.name}.{key}": value for block in blocks
                       for key, value in block.module.state_dict().items()})
    differ = {key for key, value in states[0].items() if not torch.equal(value, states[1][key])}
    assert differ == {"layer4.1.conv1.weight", "layer4.1.conv2.weight"}, "new norms are alike whatever the seed"


def test_a_cold_file_is_out_of_memory_before_it_is_loaded(tmp_path: Path, image_cache: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"x" * 1_000_000)
    set_cache(file, "cold")
    if cached_share(file) == 1:
        pytest.skip("this file system keeps its files in memory")
    assert cached_share(file) < 0.5
    set_cache(file, "warm")
    assert cached_share(file) > 0.5
    (tmp_path / "empty").touch()
    assert cached_share(tmp_path / "empty") is None


@pytest.mark.parametrize("damage", [b"", b"no state at all", None])
def test_a_damaged_state_is_one_sentence(tmp_path: Path, image_cache: Path, damage: bytes | None) -> None:
    params = Params(**TEXTS)
    blocks, _ = build_blocks(params.network, empty=False)
    file = tmp_path / "state.safetensors"
    if damage is None:
        save_state(blocks[:2], file)  # a file of another shape
    else:
        file.write_bytes(damage)
    with pytest.raises(InputError, match="this state cannot be loaded"):
        load_state(blocks, file)
