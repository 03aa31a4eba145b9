import json

import numpy as np
import pytest

from whichwhen.experiments.masks import MASKS, load_vowels, make_wards
from whichwhen.experiments.missing import SignPolicy, check_missing, main


@pytest.fixture(scope="module")
def wards():
    return make_wards(n=3000, steps=4)


@pytest.fixture(scope="module")
def found(wards):
    return {
        (mask, row["score"], row["requests"], row["estimator"]): row
        for mask in MASKS
        for row in check_missing(wards, mask, repeats=4, draws=50)
    }


def error(found, mask, estimator, requests=4, score="last"):
    return found[mask, score, requests, estimator]["error"]


def test_unanswered_requests_make_the_policy_look_worse_than_it_is(found):
    for mask in MASKS:
        assert error(found, mask, "naive") < -0.01


def test_at_random_every_estimator_finds_the_truth(found):
    for estimator in ("restricted", "ipw", "ipw-joint", "ipw-known"):
        assert abs(error(found, "random", estimator)) < 0.012


def test_a_clinician_who_measures_the_sicker_misleads_the_restricted_estimate_but_not_the_weighted_one(found):
    assert error(found, "clinician", "restricted", 2) > 0.03
    for estimator in ("ipw", "ipw-joint"):
        assert abs(error(found, "clinician", estimator, 2)) < 0.015
        # with four requests hardly any of the least ill is left to speak for the others: some of the error stays
        assert abs(error(found, "clinician", estimator, 4)) < 0.6 * error(found, "clinician", "restricted", 4)


def test_values_that_come_together_need_the_joint_model(found):
    assert abs(error(found, "tube", "ipw-joint")) < 0.015
    wrong = found["tube", "last", 4, "ipw"]
    assert wrong["weight_ratio"] > 1.5
    assert wrong["error"] is None or abs(wrong["error"]) > 0.03


def test_a_reason_that_is_not_in_the_record_misleads_the_weighted_estimate_too(found):
    for estimator in ("ipw", "ipw-joint"):
        assert error(found, "unseen", estimator, requests=2) > 0.005
    assert abs(error(found, "unseen", "ipw-known", requests=2)) < 0.01


def test_by_step_more_series_speak(found):
    for mask in ("random", "clinician", "tube"):
        by_step, by_series = (
            found[mask, "every-step", 8, name]["effective_sample_size"] for name in ("ipw-joint-by-step", "ipw-joint")
        )
        assert by_step > 1.5 * by_series
        assert abs(error(found, mask, "ipw-joint-by-step", 8, "every-step")) < 0.025


def test_the_effective_sample_size_falls_with_the_number_of_requests(found):
    sizes = [found["clinician", "last", requests, "ipw"]["effective_sample_size"] for requests in (2, 4, 8)]
    assert sizes == sorted(sizes, reverse=True)


def test_a_series_with_all_requests_answered_goes_as_with_a_complete_record(wards):
    policy, (_, values) = SignPolicy(wards), wards.values
    held = np.random.default_rng(0).random(values.shape) < 0.8
    partly, fully = policy.roll(values, held), policy.roll(values, np.ones(values.shape, dtype=bool))
    same = ~(partly.requested & ~partly.answered).any((1, 2))
    assert 0 < same.sum() < len(same)
    assert np.array_equal(partly.requested[same], fully.requested[same])
    assert np.array_equal(partly.revealed[same], fully.revealed[same])


def test_the_record_is_written(tmp_path, capsys):
    main(["--out", str(tmp_path / "new"), "--repeats", "1", "--n", "300", "--no-archive"])
    rows = json.loads((tmp_path / "new" / "summary.json").read_text())
    assert {row["mask"] for row in rows} == set(MASKS)
    assert {"dataset", "mask", "estimator", "estimate", "truth", "error", "effective_sample_size", "n"} <= set(rows[0])
    assert "refused" in capsys.readouterr().out


def test_the_archive_gives_complete_arrays():
    data = load_vowels()
    for part in (*data.values, *data.severity):
        assert np.isfinite(part).all()
    assert data.values[0].shape[1:] == (7, 11)
