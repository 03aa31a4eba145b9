import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from whichwhen.errors import DataError, SpecError
from whichwhen.evaluation.bootstrap import Scored, bootstrap_metric, paired_metric_difference
from whichwhen.evaluation.ranking import auprc, auroc
from whichwhen.evaluation.statistics import paired_difference


def policies(n=300, n_seeds=2, gap=1.0, seed=0):
    """Scores of two policies on the same series, the first with the stronger signal."""
    rng = np.random.default_rng(seed)
    labels = [rng.integers(0, 2, n)] * n_seeds
    noise = rng.standard_normal(n)
    weak = [labels[0] + noise + 0.3 * rng.standard_normal(n) for _ in range(n_seeds)]
    return [scores + gap * labels[0] for scores in weak], weak, labels


@given(st.integers(0, 1000), st.integers(1, 4), st.booleans())
@settings(deadline=None, max_examples=15)
def test_the_value_is_the_mean_over_seeds_whatever_is_drawn(seed, n_seeds, shared):
    strong, weak, labels = policies(80, n_seeds, seed=seed)
    for name, metric in (("auroc", auroc), ("auprc", auprc)):
        found = paired_metric_difference(name, strong, weak, labels, draws=5, shared=shared)
        expected = np.mean([metric(a, y) - metric(b, y) for a, b, y in zip(strong, weak, labels, strict=True)])
        assert found.mean == pytest.approx(expected)
        assert found.n_seeds == n_seeds


@pytest.mark.parametrize("metric", ["auroc", "auprc", "accuracy"])
def test_a_policy_does_not_differ_from_itself_and_the_difference_turns_with_the_policies(metric):
    strong, weak, labels = policies()
    same = paired_metric_difference(metric, weak, weak, labels, draws=50)
    assert (same.mean, same.low, same.high, same.clear) == (0, 0, 0, False)
    one = paired_metric_difference(metric, strong, weak, labels, draws=50)
    other = paired_metric_difference(metric, weak, strong, labels, draws=50)
    assert (one.mean, one.low, one.high) == pytest.approx((-other.mean, -other.high, -other.low))


def test_pairing_makes_the_interval_of_a_difference_narrower_than_that_of_each_policy():
    strong, weak, labels = policies(gap=0.3)
    found = paired_metric_difference("auroc", strong, weak, labels, draws=300)
    low, high = bootstrap_metric("auroc", Scored("weak", None, weak, labels), draws=300).interval
    assert found.high - found.low < 0.5 * (high - low)
    assert found.clear


def test_the_same_seed_draws_the_same_and_another_seed_others():
    strong, weak, labels = policies()
    one, two, other = (paired_metric_difference("auroc", strong, weak, labels, 30, seed) for seed in (1, 1, 2))
    assert one == two
    assert one != other


def test_accuracy_agrees_with_the_paired_difference_of_right_and_wrong():
    strong, weak, labels = policies(n=400, n_seeds=3)
    found = paired_metric_difference("accuracy", strong, weak, labels, draws=1500, shared=False)
    flags = [[(a > 0.5) == y for a, y in zip(scores, labels, strict=True)] for scores in (strong, weak)]
    expected = paired_difference(*flags, draws=1500)
    assert found.mean == pytest.approx(expected.mean)
    assert found.low == pytest.approx(expected.low, abs=0.006)
    assert found.high == pytest.approx(expected.high, abs=0.006)


def test_seeds_on_the_same_series_do_not_average_out_the_luck_of_the_test_set():
    """Five copies of one seed are worth one seed when the series are shared, and seem worth more when they are not."""
    _, weak, labels = policies(n_seeds=1)
    alone = bootstrap_metric("auroc", Scored("", None, weak, labels), draws=400).draws.std()
    copies = Scored("", None, weak * 5, labels * 5)
    assert bootstrap_metric("auroc", copies, draws=400).draws.std() == pytest.approx(alone, rel=0.15)
    assert bootstrap_metric("auroc", copies, draws=400, shared=False).draws.std() < 0.6 * alone


def test_rows_of_one_series_are_drawn_together():
    """Each series four times: as rows of their own they seem to tell four times as much."""
    _, weak, labels = policies(n=100, n_seeds=1)
    rows, truth = [weak[0].repeat(4)], [labels[0].repeat(4)]
    series = [np.arange(100).repeat(4)]
    alone = bootstrap_metric("auroc", Scored("", None, weak, labels), draws=60).draws
    together = bootstrap_metric("auroc", Scored("", None, rows, truth, series=series), draws=60).draws
    assert together == pytest.approx(alone)
    apart = bootstrap_metric("auroc", Scored("", None, rows, truth), draws=200).draws
    assert apart.std() < 0.7 * together.std()


def test_the_interval_covers_the_truth_about_as_often_as_it_says():
    """Scores of the classes one standard deviation apart: AUROC is Φ(1/√2) = .7602."""
    rng = np.random.default_rng(5)
    covered = 0
    for i in range(60):
        labels = rng.integers(0, 2, 150)
        found = bootstrap_metric("auroc", Scored("", None, [labels + rng.standard_normal(150)], [labels]), draws=200, seed=i)
        covered += found.interval[0] <= 0.7602 <= found.interval[1]
    assert covered >= 51


def test_draws_that_lack_a_class_are_left_out_of_the_interval():
    labels = [np.array([1, 0, 0, 0])]
    found = bootstrap_metric("auroc", Scored("", None, [np.array([0.9, 0.1, 0.2, 0.95])], labels), draws=100)
    assert np.isnan(found.draws).any()
    assert 0 <= found.interval[0] <= found.value <= found.interval[1] <= 1


def test_what_can_not_be_compared_is_named():
    strong, weak, labels = policies()
    with pytest.raises(DataError, match="scores of 2 seeds with labels of 1"):
        paired_metric_difference("auroc", strong, weak, labels[:1])
    with pytest.raises(DataError, match="a class without rows"):
        bootstrap_metric("auroc", Scored("", None, weak, [np.zeros(300)] * 2))
    with pytest.raises(DataError, match="test sets of 200 and 300 series"):
        bootstrap_metric("auroc", Scored("", None, [weak[0], weak[1][:200]], [labels[0], labels[1][:200]]))
    with pytest.raises(SpecError, match="0 draws"):
        bootstrap_metric("auroc", Scored("", None, weak, labels), draws=0)
    with pytest.raises(DataError, match=r"series of shape \(3,\)"):
        bootstrap_metric("auroc", Scored("", None, weak, labels, series=[np.zeros(3, dtype=int)] * 2))
