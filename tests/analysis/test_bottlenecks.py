"""Groups of a search: they add up, parts are sorted, joint is compared with separate models of the same kind only."""

from __future__ import annotations

from typing import Any

import pytest

from analysis.bottlenecks import GROUPS, bars, groups_of, joint_gains
from analysis.comparison import compare
from analysis.search import SearchRun

ASKED = {"model": "resnet18", "arrangement": "one", "part": "full", "share_by": "blocks", "models": 4, "items": 96,
         "batch_size": 32}


def run(inference_s: float = 2.0, environment: str = "e", noisy: bool = False, **asked: Any) -> SearchRun:
    params = {**ASKED, **asked}
    metrics = {"end_to_end_s": 1.5 + inference_s, "init_model_s": 0.1, "load_state_s": 0.3, "model_to_device_s": 0.1,
               "score_s": 0.25, "load_state_computed_s": 0.05, "state_cached_share": 1.0}
    return SearchRun("r", "bottleneck", str(sorted(params.items())), environment, noisy, params, metrics,
                     {"load_data": 1.0, "data_to_device": 0.2, "inference": inference_s}, {"runs": "stem to head"})


def test_groups_add_up_to_the_whole() -> None:
    groups = groups_of(run())
    assert groups == pytest.approx(dict(zip(GROUPS, (0.5, 1.2, 2.0, 0.25, 0.3), strict=True)))
    (bar,) = bars([run(2.0), run(4.0, noisy=True)])
    assert bar.groups_s["inference"] == 3.0 and bar.total_s == pytest.approx(sum(bar.groups_s.values()))
    assert (bar.runs, bar.noisy_runs, bar.totals_s) == (2, 1, pytest.approx([4.25, 6.25]))
    assert (bar.measured_load_s, bar.computed_load_s) == (0.3, 0.05), "measured and computed stay two figures"
    assert sum(bar.share(group) for group in GROUPS) == pytest.approx(1)


def test_phases_that_overlap_leave_nothing_unaccounted_and_the_whole_is_by_the_clock() -> None:
    slow = run()
    overlapping = slow._replace(metrics={**slow.metrics, "end_to_end_s": 2.5})
    assert groups_of(overlapping)["unaccounted"] == 0
    (bar,) = bars([overlapping])
    assert (bar.total_s, bar.totals_s) == (pytest.approx(3.25), [pytest.approx(3.25)])
    assert (bar.groups_total_s, bar.overlap_s) == (pytest.approx(3.95), pytest.approx(0.7))
    assert sum(bar.share(group) for group in GROUPS) == pytest.approx(1)


def test_bars_go_from_the_whole_to_the_smallest_part_then_several_models() -> None:
    runs = [run(arrangement="joint", part="last_3_blocks"), run(part="last_1_block"), run(part="last_50%"),
            run(part="last_50%", share_by="compute"), run(), run(arrangement="separate", part="last_3_blocks")]
    assert [bar.label for bar in bars(runs)] == ["whole", "last 50 %", "last 50 % by compute", "last block",
                                                 "4 joint, last 3 blocks", "4 separate, last 3 blocks"]


def test_settings_that_change_nothing_make_no_bar_of_their_own() -> None:
    wholes = [run(2.0, share_by=share, models=models) for share in ("blocks", "compute") for models in (2, 4)]
    (whole,) = bars(wholes)
    assert (whole.label, whole.runs, whole.setting) == ("whole", 4, "")


def test_a_setting_keeps_its_id_whatever_else_is_there() -> None:
    (alone,) = bars([run(file_cache="cold")])
    among = bars([run(file_cache="warm"), run(file_cache="cold"), run(file_cache="cold", part="last_1_block")])
    assert [(bar.setting, bar.setting_id == alone.setting_id) for bar in among] == [
        ("file_cache=cold", True), ("file_cache=cold", True), ("file_cache=warm", False)]
    assert [bar.setting_id for bar in bars([run(file_cache="cold", head_classes=None)])] == [alone.setting_id]


def test_joint_is_compared_with_the_same_models_one_after_another() -> None:
    several = {"arrangement": "joint", "part": "last_50%"}
    runs = [run(1.0, **several), run(1.2, **several), run(6.0, **{**several, "arrangement": "separate"}),
            run(6.5, **{**several, "arrangement": "separate"}),
            run(9.0, **{**several, "arrangement": "separate", "models": 8}),
            run(9.0, **{**several, "arrangement": "separate"}, environment="f"),
            run(9.0, **{**several, "arrangement": "separate"}, items=1024)]
    (gain,) = joint_gains(bars(runs))
    assert (gain.part, gain.models) == ("last_50%", 4)
    assert gain.ratio == compare([8.25, 8.75], [3.25, 3.45])


def test_a_run_that_lacks_a_group_is_left_out() -> None:
    whole = run()
    assert bars([whole._replace(metrics={"end_to_end_s": 1.0})]) == []
