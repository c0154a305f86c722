"""Cutting networks into blocks: the pieces give what the whole gives, at every cut point of every model."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.blocks import Block, Part, count_compute, cut, first_block, join, join_heads
from engine.models import MODELS, ModelError, build_model, find_head, remove_head
from engine.text import TEXT_MODELS, TokenItems, build_text_model

LARGE = {"eff_net_v2_l", "vit_l_16", "vit_l_32"}
CLOSE = {"rtol": 1e-5, "atol": 1e-5}


def small_model(name: str) -> Any:
    """The real network; on a CPU that others use too, small images and sequences keep it quick."""
    import torch

    torch.manual_seed(1)
    model = build_model(name, max(32, MODELS[name].smallest_size), "random", classes=7)
    # Without statistics of its own a new batch norm lets deep networks fade to 1e-9 in evaluation mode.
    for module in model.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            module.momentum = 1.0
    if MODELS[name].kind != "text":
        with torch.no_grad():
            model(torch.rand(8, 3, 32, 32))
    model.eval()
    # Vision transformers begin with a head of zeros, and zeros agree with anything.
    torch.nn.init.normal_(find_head(model)[1].weight)
    return model


def example_input(name: str) -> Any:
    import torch

    if name in TEXT_MODELS:
        return torch.stack([TokenItems(name, 2, 8)[index][0] for index in range(2)])
    return torch.rand(2, 3, 32, 32, generator=torch.Generator().manual_seed(2))


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    """Two threads on a core that others use wait for each other longer than they compute."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("name", MODELS)
def test_prefix_and_suffix_give_the_whole_at_every_cut_point(name: str) -> None:
    """Every block alone takes the whole network's own activations one step further; and suffixes are run from every
    cut point to the end, in the largest networks from a few."""
    import torch

    model, example = small_model(name), example_input(name)
    blocks = cut(model)
    seen: dict[str, Any] = {}
    hooks = [block.module.register_forward_pre_hook(
        lambda module, given, name=block.name: seen.update({name: given[0].clone()})) for block in blocks[1:-1]]
    with torch.inference_mode():
        whole = model(example)
        for hook in hooks:
            hook.remove()
        assert float(whole.abs().max()) > 1e-3 and bool(whole.isfinite().all())
        at_cut = example
        for point, block in enumerate(blocks):
            given = at_cut.clone()
            if name not in LARGE or point % 20 == 3:
                torch.testing.assert_close(join(blocks[point:])(at_cut), whole, **CLOSE)
            following = block.module(at_cut)
            assert torch.equal(at_cut, given), f"{block.name} changed its input"
            at_cut = following
            expected = whole if block.name == "head" else seen.get(blocks[point + 1].name)
            if expected is not None:  # between the last repeating block and the head there is no module to ask
                torch.testing.assert_close(at_cut, expected, **CLOSE)
        remove_head(model)
        features = join(cut(model))(example)
    assert features.shape == (2, find_head(small_head(name))[1].in_features)


def small_head(name: str) -> Any:
    import torch

    with torch.device("meta"):
        return build_model(name, max(32, MODELS[name].smallest_size), "random", classes=7)


@pytest.mark.parametrize("name", MODELS)
def test_every_parameter_is_in_exactly_one_block(name: str) -> None:
    model = small_head(name)
    blocks = cut(model)
    assert (blocks[0].name, blocks[-1].name) == ("stem", "head")
    parts = [id(parameter) for block in blocks for parameter in block.module.parameters()]
    assert sorted(parts) == sorted(map(id, model.parameters()))
    assert sum(block.parameters for block in blocks) == sum(p.numel() for p in model.parameters())
    assert all(block.parameters == sum(v.numel() for _, v in block.module.named_parameters()) for block in blocks)


@pytest.mark.parametrize("name", ["resnet18", "mobilenet_v2", "eff_net_v2_s", "vit", "bert", "roberta"])
@pytest.mark.parametrize("point", [1, -2])
def test_joint_heads_give_what_separate_networks_give(name: str, point: int) -> None:
    import torch
    from torchvision.models import VisionTransformer

    torch.manual_seed(1)
    if name in TEXT_MODELS:
        model = build_text_model(name, 7, layers=4, width=128).eval()
    elif name == "vit":  # narrower than any of ours
        model = VisionTransformer(image_size=32, patch_size=16, num_layers=4, num_heads=2, hidden_dim=32, mlp_dim=64)
    else:
        model = small_model(name)
    blocks = cut(model)
    others = [copy.deepcopy(blocks[point:]) for _ in range(3)]
    with torch.no_grad():
        for other in others:
            for parameter in other[-1].module.parameters():
                parameter.add_(torch.rand_like(parameter))
        example = example_input(name)
        joint = join_heads(blocks[:point], others)(example)
        assert len(joint) == 3
        assert not torch.allclose(joint[0], joint[1])
        for other, together in zip(others, joint, strict=True):
            torch.testing.assert_close(together, join([*blocks[:point], *other])(example), **CLOSE)


def test_a_block_has_a_state_of_its_own_that_can_be_put_back() -> None:
    import torch

    model, example = small_model("resnet18"), example_input("resnet18")
    before = model(example)
    blocks = cut(model)
    kept = {block.name: copy.deepcopy(block.module.state_dict()) for block in blocks}
    with torch.no_grad():
        for parameter in blocks[3].module.parameters():
            parameter.zero_()
    assert not torch.allclose(model(example), before)
    blocks[3].module.load_state_dict(kept[blocks[3].name])
    torch.testing.assert_close(model(example), before)


def test_compute_is_counted_without_computing() -> None:
    """A linear layer of a x b takes 2ab operations per item, a transformer layer of width w at length n takes
    24nw2 + 4n2w."""
    import torch

    with torch.device("meta"):
        bert = build_model("bert", 224, "random", classes=10)
        counts = count_compute(cut(bert), torch.zeros(3, 16, dtype=torch.long))
        vision = count_compute(cut(build_model("resnet18", 224, "random")), torch.zeros(1, 3, 224, 224))
    assert counts[1:-1] == [3 * (24 * 16 * 768**2 + 4 * 16**2 * 768)] * 12
    assert counts[-1] == 3 * (2 * 768 * 768 + 2 * 768 * 10)
    assert sum(vision) == pytest.approx(2 * 1.814e9, rel=0.01)  # torchvision publishes 1.814 GFLOPS as multiply-adds


@pytest.mark.parametrize("name", ["vit_b_32", "eff_net_v2_s"])
def test_compute_is_the_same_for_every_part_of_attention_and_convolution(name: str) -> None:
    """Blocks together count what the whole counts."""
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    with torch.device("meta"):
        model = build_model(name, 64, "random")
        example = torch.zeros(2, 3, 64, 64)
        with FlopCounterMode(display=False) as counter:
            model(example)
        assert sum(count_compute(cut(model), example)) == counter.get_total_flops() > 0


PARTS: list[Part] = ["full", "last_50%", "last_25%", "last_3_blocks", "last_1_block"]


@pytest.mark.parametrize(("sizes", "expected"), [
    ([1] * 10, [0, 5, 7, 6, 8]),              # resnet18: stem, eight blocks, head
    ([9, 1, 1, 1, 5, 9], [0, 4, 4, 2, 4]),    # by size: the last block alone is more than half
    ([9, 5, 1, 1, 1, 9], [0, 1, 3, 2, 4]),
    ([1, 1, 1], [0, 1, 1, 1, 1]),
])
def test_where_a_part_begins(sizes: list[float], expected: list[int]) -> None:
    assert [first_block(part, sizes) for part in PARTS] == expected


@given(st.lists(st.floats(0.001, 1000), min_size=3, max_size=100))
def test_a_share_is_reached_and_not_without_need_exceeded(sizes: list[float]) -> None:
    for part, share in (("last_50%", 0.5), ("last_25%", 0.25)):
        first = first_block(part, sizes)  # type: ignore[arg-type]
        whole = sum(sizes[1:-1])
        assert 1 <= first <= len(sizes) - 2
        assert sum(sizes[first:-1]) >= share * whole * (1 - 1e-9)
        assert sum(sizes[first + 1 : -1]) <= share * whole * (1 + 1e-9)


def test_a_network_of_unknown_structure_is_one_sentence() -> None:
    import torch

    with pytest.raises(ModelError, match="Linear: this network cannot be cut into blocks"):
        cut(torch.nn.Linear(2, 2))


def test_generated_texts_are_the_same_whoever_asks_and_never_padding() -> None:
    import torch

    many, few = TokenItems("roberta", 40, 32), TokenItems("roberta", 20, 32)
    assert len(many) == 40 and many.labels[:11] == [*range(10), 0]
    for index in range(20):
        ids, label = many[index]
        assert torch.equal(ids, few[index][0]) and label == few.labels[index]
        assert ids.shape == (32,) and int(ids.min()) >= 1000 and int(ids.max()) < 50_265
    assert not torch.equal(many[0][0], many[10][0])
    with pytest.raises(IndexError):
        few[20]


def test_blocks_are_named_tuples_of_name_module_and_parameters() -> None:
    block = cut(small_head("resnet18"))[1]
    assert isinstance(block, Block) and block.name == "layer1.0" and block.parameters == 73_984
