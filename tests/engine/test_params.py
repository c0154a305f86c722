"""Parameters: keys that stay the same for the same cell, and one sentence for every wrong value."""

from __future__ import annotations

from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from engine.experiments.inference import Params as InferenceParams
from engine.home import PROJECT
from engine.params import Params, allowed_values, cell_key, explain, setting, shorten, suggestion
from engine.registry import FOLDER, Experiment, load_all


class Example(Params):
    size: int = setting(8, title="Size", help="Items.", ge=1, le=64)
    limit: int | None = setting(None, title="Limit", help="At most.", ge=1, le=100)
    count: int = setting(0, title="Count", help="Any number of them.", ge=0)
    scale: float = setting(1.5, title="Scale", help="Factor.", gt=0)
    share: float = setting(0.5, title="Share", help="Part of it.", ge=0, le=1)
    name: str = setting("x", title="Name", help="Text.", max_length=5)
    shape: Literal["round", "square"] = setting("round", title="Shape", help="Form.")
    fast: bool = setting(False, title="Fast", help="Hurry.")


class Needy(Params):
    size: int = setting(..., title="Size", help="give the number of items", ge=1, le=64)


def sentence(kind: type[Params], **values: Any) -> str:
    with pytest.raises(ValidationError) as caught:
        kind(**values)
    return explain(caught.value, kind, "example")


# -- keys --------------------------------------------------------------------------------------------------------------

VALUES = st.fixed_dictionaries({}, optional={
    "size": st.integers(1, 64), "limit": st.none() | st.integers(1, 3), "share": st.floats(0, 1),
    "name": st.text(max_size=5), "shape": st.sampled_from(["round", "square"]), "fast": st.booleans(),
    "seed": st.integers(0, 3)})


def test_key_is_pinned() -> None:
    """A change of the scheme would orphan every cell measured so far: it must be noticed here."""
    assert cell_key("inference", InferenceParams()) == "7e2795ae0001c118"
    asked = InferenceParams(model="resnet50", batch_size=128, threads=2, channels_last=True, data="/bilder/größe")
    assert cell_key("inference", asked) == "97a08e732ab0299b"


def test_defaults_given_explicitly_have_the_key_of_defaults_left_out() -> None:
    everything = {name: field.default for name, field in Example.model_fields.items()}
    assert cell_key("e", Example(**everything)) == cell_key("e", Example())
    assert cell_key("e", Example(size=8)) == cell_key("e", Example(name="x"))


def test_each_value_and_the_experiment_make_a_difference() -> None:
    cells = [Example(), Example(size=9), Example(limit=9), Example(count=9), Example(scale=9), Example(share=0.25),
             Example(name="y"), Example(shape="square"), Example(fast=True), Example(seed=1), Example(threads=1)]
    keys = {cell_key(experiment, cell) for experiment in ("e", "f") for cell in cells}
    assert len(keys) == 2 * len(cells)


def test_whole_number_for_a_float_is_the_same_cell() -> None:
    assert cell_key("e", Example(scale=2)) == cell_key("e", Example(scale=2.0))


@given(VALUES, VALUES)
def test_same_key_exactly_for_the_same_values(some: dict[str, Any], other: dict[str, Any]) -> None:
    same_values = Example(**some) == Example(**other)
    assert (cell_key("e", Example(**some)) == cell_key("e", Example(**other))) is same_values


@given(VALUES.flatmap(lambda values: st.tuples(st.just(values), st.permutations(list(values)))))
def test_key_does_not_depend_on_the_order_of_values(case: tuple[dict[str, Any], list[str]]) -> None:
    values, order = case
    assert cell_key("e", Example(**{name: values[name] for name in order})) == cell_key("e", Example(**values))


@given(VALUES)
def test_parameter_added_later_keeps_old_keys(values: dict[str, Any]) -> None:
    """Fields in another order and a new one with a default: the cells measured before are still found."""

    class Later(Example):
        added: int = setting(3, title="Added", help="Came later.", ge=0, le=9)
        size: int = setting(8, title="Size", help="Items.", ge=1, le=128)

    assert cell_key("e", Later(**values)) == cell_key("e", Example(**values))
    assert cell_key("e", Later(**values, added=4)) != cell_key("e", Example(**values))


# -- sentences ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("values", "expected"), [
    ({"size": 0}, "size=0: must be 1 to 64"),
    ({"size": 65}, "size=65: must be 1 to 64"),
    ({"limit": 0}, "limit=0: must be 1 to 100"),
    ({"count": -1}, "count=-1: must be a whole number, at least 0"),
    ({"scale": 0.0}, "scale=0.0: must be a number, more than 0"),
    ({"share": 1.5}, "share=1.5: must be 0 to 1"),
    ({"share": float("nan")}, "share=NaN: must be 0 to 1"),
    ({"shape": "oval"}, "shape=oval: must be one of round, square"),
    ({"shape": None}, "shape=null: must be one of round, square"),
    ({"seed": 2**31}, "seed=2147483648: must be 0 to 2147483647"),
    ({"fast": 1}, "fast=1: must be true or false"),
])
def test_wrong_value_is_named_with_what_is_allowed(values: dict[str, Any], expected: str) -> None:
    assert sentence(Example, **values) == expected


@pytest.mark.parametrize(("value", "shown"), [(True, "true"), ("32", '"32"')])
def test_value_of_another_type_is_told_which_type_it_must_be(value: Any, shown: str) -> None:
    """Or it would read `size=32: must be 1 to 64`."""
    text = sentence(Example, size=value)
    assert text.startswith(f"size={shown}: must be 1 to 64")
    assert "a whole number" in text


@pytest.mark.parametrize(("value", "shown"), [(1.5, "1.5"), (1.0, "1.0"), (None, "null"), ([1], "[1]")])
def test_number_that_is_not_whole_is_told_so(value: Any, shown: str) -> None:
    text = sentence(Example, size=value)
    assert text.startswith(f"size={shown}: must be 1 to 64")
    assert "a whole number" in text


@pytest.mark.parametrize("values", [{"fast": "yes"}, {"scale": "2"}, {"count": "2"}])
def test_sentence_says_nothing_twice(values: dict[str, Any]) -> None:
    words = sentence(Example, **values).split(": must be ")[1].split(", ")
    assert len(set(words)) == len(words)


def test_open_and_one_sided_bounds_are_told() -> None:
    class Bounds(Params):
        above: float = setting(1.0, title="Above", help="Not zero.", gt=0, le=5)
        most: int = setting(1, title="Most", help="At most.", le=5)

    assert allowed_values(Bounds.model_fields["above"]) == "must be a number, more than 0 and at most 5"
    assert allowed_values(Bounds.model_fields["most"]) == "must be a whole number, at most 5"


def test_too_long_text_is_cut_in_the_sentence() -> None:
    text = sentence(Example, name="n" * 10_000)
    assert text.startswith("name=nnn")
    assert "…: must be " in text
    assert text.endswith("at most 5 characters")
    assert len(text) < 150


def test_unknown_name_comes_with_a_suggestion_and_the_names_there_are() -> None:
    names = ", ".join(Example.model_fields)
    assert sentence(Example, szie=3) == f"szie: example has no such entry; did you mean size? (it has {names})"
    assert sentence(Example, zzz=3) == f"zzz: example has no such entry (it has {names})"


def test_missing_value_says_what_to_give() -> None:
    assert sentence(Needy) == "size: example needs it; give the number of items"


def test_rule_between_fields_is_its_own_sentence() -> None:
    assert sentence(InferenceParams, batches=2, images=64) == "batches and images are both given; keep one of them"
    assert sentence(InferenceParams, model="resnt18").startswith("model=resnt18: no such model; did you mean resnet18?")


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(), lambda inner:
                    st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3), max_leaves=5))
def test_any_value_at_all_is_one_short_sentence(value: Any) -> None:
    """`name` takes text of up to five characters, so nearly all of these are wrong in some way."""
    try:
        Example(name=value)
    except ValidationError as error:
        assert len(explain(error, Example, "example")) < 150


@pytest.mark.parametrize("kind", ["date key", "circle", "digits"])
def test_values_that_json_cannot_write_are_shortened_too(kind: str) -> None:
    circle: list[Any] = []
    circle.append(circle)
    value = {"date key": {(1, 2): 3}, "circle": circle, "digits": 16**6000}[kind]
    assert len(shorten(value)) <= 60


@pytest.mark.parametrize("value", ["two\nlines", "half \ud800"])
def test_sentence_stays_on_one_printable_line(value: str) -> None:
    assert sentence(Example, shape=value).isprintable()


@pytest.mark.parametrize("value", ["bell\a", "\x1b[31mred"])
def test_sentence_does_not_steer_the_terminal(value: str) -> None:
    assert sentence(Example, shape=value).isprintable()


def test_suggestion_is_made_for_near_words_only() -> None:
    assert suggestion("batchsize", ["batch_size", "seed"]) == "; did you mean batch_size?"
    assert suggestion("colour", ["batch_size", "seed"]) == ""
    assert suggestion("colour", []) == ""


# -- the experiments there are -----------------------------------------------------------------------------------------


def experiments() -> list[Experiment]:
    found = load_all([FOLDER, PROJECT / "tests" / "experiments"])
    return [one for one in found.values() if isinstance(one, Experiment)]


def test_every_field_can_be_drawn_as_a_form() -> None:
    """A title, a help text, and bounds or choices, unless it is text or a yes or no."""
    assert {"inference", "misbehave"} <= {experiment.name for experiment in experiments()}
    for experiment in experiments():
        for name, field in experiment.Params.model_fields.items():
            place = f"{experiment.name}.{name}"
            assert field.title, f"{place} has no title"
            assert field.description, f"{place} has no help"
            bounded = any(hasattr(m, "ge") or hasattr(m, "gt") for m in field.metadata)
            free = field.annotation in (bool, str, str | None)
            assert free or bounded or "one of" in allowed_values(field), f"{place} has neither bounds nor choices"
            assert not field.is_required(), f"{place} has no default"


def test_defaults_of_every_experiment_are_valid() -> None:
    for experiment in experiments():
        assert experiment.Params.model_validate(experiment.Params().model_dump(mode="json")) == experiment.Params()
