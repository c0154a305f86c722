"""BERT and RoBERTa from their configurations, and generated token ids with learnable classes. Nothing is downloaded.

Importable without torch and transformers. Sequences are always full: no padding, so no attention mask is needed and
hidden states alone travel from layer to layer.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import torch

BASE_LAYERS = 12
BASE_WIDTH = 768
HEAD_WIDTH = 64
"""Of one attention head, in the base models and in every smaller one their authors published."""
LONGEST = 512
SPECIAL_TOKENS = 1000
"""Both vocabularies keep markers and padding below this id: generated ids stay above."""
TEXT_CLASSES = 10
CLASS_TOKENS = 200
CLASS_SHARE = 0.15
"""Of the tokens of a text that come from its class's own part of the vocabulary; the others come from anywhere."""


class TextEntry(NamedTuple):
    """What its authors' base model has besides layers and width."""

    vocabulary: int
    positions: int
    token_types: int
    norm_eps: float


TEXT_MODELS = {
    "bert": TextEntry(30_522, 512, 2, 1e-12),
    "roberta": TextEntry(50_265, 514, 1, 1e-5),
}


def build_text_model(name: str, classes: int, layers: int = BASE_LAYERS, width: int = BASE_WIDTH) -> torch.nn.Module:
    """The encoder with its pooler and a linear head, in training mode: token ids in, one score per class out."""
    import transformers

    entry = TEXT_MODELS[name]
    settings: dict[str, Any] = {
        "vocab_size": entry.vocabulary, "hidden_size": width, "num_hidden_layers": layers,
        "num_attention_heads": width // HEAD_WIDTH, "intermediate_size": 4 * width,
        "max_position_embeddings": entry.positions, "type_vocab_size": entry.token_types,
        "layer_norm_eps": entry.norm_eps}
    if name == "bert":
        encoder: Any = transformers.BertModel(transformers.BertConfig(**settings))
    else:
        encoder = transformers.RobertaModel(transformers.RobertaConfig(**settings))
    # transformers leaves what it builds in evaluation mode.
    model: torch.nn.Module = _classifier()(encoder.train(), width, classes)
    return model


@functools.cache
def _classifier() -> Any:
    """Defined when first used: torch is not loaded with this module."""
    from torch import nn

    class TextClassifier(nn.Module):  # type: ignore[misc]
        def __init__(self, encoder: Any, width: int, classes: int) -> None:
            super().__init__()
            self.encoder = encoder
            self.dropout = nn.Dropout(encoder.config.hidden_dropout_prob)
            self.head = nn.Linear(width, classes)

        def forward(self, token_ids: Any) -> Any:
            return self.head(self.dropout(self.encoder(token_ids).pooler_output))

    return TextClassifier


class TokenItems:
    """A map-style set for torch's DataLoader: item i is (token ids, class index). Classes take turns; an item is drawn
    from the seed and its index alone, so that it is the same however many are asked for."""

    def __init__(self, model: str, items: int, length: int, seed: int = 0, classes: int | None = None) -> None:
        assert 1 <= length <= LONGEST
        self.vocabulary = TEXT_MODELS[model].vocabulary
        self.items, self.length, self.seed = items, length, seed
        self.classes = [f"words_{number}" for number in range(classes or TEXT_CLASSES)]
        self.labels = [index % len(self.classes) for index in range(items)]

    def __len__(self) -> int:
        return self.items

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        import torch

        if not 0 <= index < self.items:
            raise IndexError(index)
        chance = torch.Generator().manual_seed(self.seed * 1_000_003 + index)
        label = self.labels[index]
        ids = torch.randint(SPECIAL_TOKENS, self.vocabulary, (self.length,), generator=chance)
        own = SPECIAL_TOKENS + label * CLASS_TOKENS + torch.randint(CLASS_TOKENS, (self.length,), generator=chance)
        chosen = torch.rand(self.length, generator=chance) < CLASS_SHARE
        return torch.where(chosen, own, ids), label
