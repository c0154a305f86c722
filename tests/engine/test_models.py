"""The models: published sizes, smallest images, sentences for what cannot be built."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.models import MODELS, ModelError, build_model, describe_models, image_size_problem

PROJECT = Path(__file__).resolve().parents[2]
# Parameters as torchvision's documentation and the models' authors publish them; blocks as in the papers.
PUBLISHED = {
    "resnet18": (11_689_512, 8),
    "resnet34": (21_797_672, 16),
    "resnet50": (25_557_032, 16),
    "resnet101": (44_549_160, 33),
    "resnet152": (60_192_808, 50),
    "mobilenet_v2": (3_504_872, 17),
    "eff_net_v2_s": (21_458_488, 40),
    "eff_net_v2_l": (118_515_272, 79),
    "vit_b_16": (86_567_656, 12),
    "vit_l_16": (304_326_632, 24),
    "vit_b_32": (88_224_232, 12),
    "vit_l_32": (306_535_400, 24),
    "revnet_3": (476_020, 9),
    "revnet_5": (796_468, 15),
    "revnet_9": (1_437_364, 27),
    "revnet_18": (2_879_380, 54),
    "adjusted_resnet18": (746_436, 8),
    "adjusted_resnet34": (1_393_476, 16),
    "adjusted_resnet50": (1_581_700, 16),
    "bert": (109_482_240, 12),
    "roberta": (124_645_632, 12),
}
VISION = [name for name, entry in MODELS.items() if entry.kind != "text"]
LARGE = {"eff_net_v2_l", "vit_l_16", "vit_l_32"}  # half a gigabyte and more each: shapes only


def run_python(*arguments: object, **environment: str) -> str:
    done = subprocess.run([sys.executable, "-W", "error", *map(str, arguments)], cwd=PROJECT, check=False,
                          env=os.environ | environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def described() -> list[dict[str, Any]]:
    return describe_models()


def test_parameters_and_blocks_are_the_published_ones(described: list[dict[str, Any]]) -> None:
    assert {model["name"]: (model["parameters"], model["blocks"]) for model in described} == PUBLISHED
    assert {model["name"] for model in described if model["kind"] == "text"} == {"bert", "roberta"}


@pytest.mark.parametrize("name", VISION)
def test_every_model_runs_at_its_smallest_size(name: str) -> None:
    import torch

    size = MODELS[name].smallest_size
    assert image_size_problem(name, size, "random") is None
    with torch.device("meta" if name in LARGE else "cpu"):
        model = build_model(name, size, "random", classes=7).eval()
        with torch.no_grad():
            scores = model(torch.zeros(2, 3, size, size))
    assert scores.shape == (2, 7)
    assert name in LARGE or bool(scores.isfinite().all())


@pytest.mark.parametrize("name", VISION)
def test_every_model_trains_on_one_image_of_64_px(name: str) -> None:
    """And its last batch norm sees the map that the entry promises."""
    import torch

    sides = []
    with torch.device("meta"):
        model = build_model(name, 64, "random")
        for module in model.modules():
            if isinstance(module, torch.nn.BatchNorm2d):
                module.register_forward_hook(lambda module, given, result: sides.append(given[0].shape[-1]))
        assert model(torch.zeros(1, 3, 64, 64)).shape == (1, MODELS[name].classes)
    stride = MODELS[name].norm_stride
    assert min(sides, default=None) == (64 // stride if stride else None)


def test_random_weights_follow_the_seed() -> None:
    import torch

    def weights(seed: int) -> torch.Tensor:
        torch.manual_seed(seed)
        return torch.cat([parameter.flatten() for parameter in build_model("mobilenet_v2", 32, "random").parameters()])

    first = weights(1)
    assert torch.equal(first, weights(1)) and not torch.equal(first, weights(2))


@pytest.mark.parametrize(("name", "size", "weights", "words"), [
    ("resnet18", 31, "random", ["image_size=31", "at least 32"]),
    ("resnet18", -5, "random", ["image_size=-5", "at least 32"]),
    ("vit_b_16", 0, "random", ["image_size=0", "at least 16"]),
    ("vit_b_16", 100, "random", ["image_size=100", "96 or 112"]),
    ("vit_l_32", 48, "random", ["image_size=48", "32 or 64"]),
    ("vit_b_16", 64, "pretrained", ["image_size=64", "224"]),
    ("resnet19", 224, "random", ["model='resnet19'", "resnet18"]),
    ("bert", 224, "random", ["model='bert'", "reads text, not images", "resnet18"]),
])
def test_a_bad_size_is_one_sentence(name: str, size: int, weights: Any, words: list[str]) -> None:
    problem = image_size_problem(name, size, weights)
    assert problem is not None and problem.endswith(".") and "\n" not in problem
    assert all(word in problem for word in words)
    if name != "bert":  # which has no image size to be wrong
        with pytest.raises(ModelError) as caught:
            build_model(name, size, weights)
        assert str(caught.value) == problem


@given(name=st.sampled_from(sorted(VISION)), size=st.integers(-10, 2000))
def test_a_size_is_allowed_exactly_when_it_is_a_large_enough_multiple(name: str, size: int) -> None:
    entry = MODELS[name]
    allowed = size >= entry.smallest_size and size % entry.size_multiple == 0
    assert (image_size_problem(name, size, "random") is None) == allowed
    assert (image_size_problem(name, 224, "pretrained") is None) == entry.pretrained


def test_wrong_weights_and_classes_are_one_sentence() -> None:
    wrong: Any = "magic"
    with pytest.raises(ModelError, match="weights='magic': must be 'random' or 'pretrained'"):
        build_model("resnet18", 64, wrong)
    with pytest.raises(ModelError, match="classes=0"):
        build_model("resnet18", 64, "random", classes=0)
    with pytest.raises(ModelError, match="weights='pretrained': roberta is built from its configuration only"):
        build_model("roberta", 224, "pretrained")


def test_pretrained_weights_are_read_and_get_a_new_head(tmp_path: Path) -> None:
    """The weights' file is put where the download would put it; the name carries the hash of the real one."""
    import torch
    from torchvision.models import MobileNet_V2_Weights

    torch.manual_seed(3)
    original = build_model("mobilenet_v2", 64, "random")
    torch.save(original.state_dict(), tmp_path / Path(MobileNet_V2_Weights.IMAGENET1K_V1.url).name)
    same = build_model("mobilenet_v2", 64, "pretrained", weights_cache=tmp_path)
    assert all(torch.equal(value, original.state_dict()[name]) for name, value in same.state_dict().items())
    other = build_model("mobilenet_v2", 64, "pretrained", classes=5, weights_cache=tmp_path)
    assert other(torch.zeros(2, 3, 64, 64)).shape == (2, 5)
    assert torch.equal(other.state_dict()["features.0.0.weight"], original.state_dict()["features.0.0.weight"])


@pytest.mark.parametrize("content", [b"", b"no weights at all", b"PK\x03\x04 cut short"])
def test_a_damaged_file_of_weights_is_one_sentence(content: bytes, tmp_path: Path) -> None:
    from torchvision.models import MobileNet_V2_Weights

    (tmp_path / Path(MobileNet_V2_Weights.IMAGENET1K_V1.url).name).write_bytes(content)
    with pytest.raises(ModelError) as caught:
        build_model("mobilenet_v2", 64, "pretrained", weights_cache=tmp_path)
    assert "\n" not in str(caught.value) and str(tmp_path) in str(caught.value)


@pytest.mark.parametrize("name", VISION)
def test_every_model_takes_a_new_head(name: str) -> None:
    import torch

    from engine.models import _replace_head

    with torch.device("meta"):
        model = build_model(name, 64, "random")
        _replace_head(model, 3)
        assert model(torch.zeros(2, 3, 64, 64)).shape == (2, 3)


def test_a_download_without_network_is_one_sentence(tmp_path: Path) -> None:
    nowhere = "http://127.0.0.1:9"
    told = run_python("-c", """
import sys
from pathlib import Path
from engine.models import ModelError, build_model
try:
    build_model("mobilenet_v2", 224, "pretrained", weights_cache=Path(sys.argv[1]))
except ModelError as error:
    print(error)
""", tmp_path, http_proxy=nowhere, https_proxy=nowhere, no_proxy="").strip()
    assert told.startswith("weights='pretrained'") and "mobilenet_v2" in told and "check the network" in told
    assert "\n" not in told
    assert list(tmp_path.iterdir()) == []


def test_the_app_can_import_it_without_torch_and_numpy() -> None:
    loaded = run_python("-c", "import sys, engine.models; print(*sys.modules)").split()
    assert "engine.models" in loaded
    assert not {"torch", "torchvision", "transformers", "numpy"} & set(loaded)
