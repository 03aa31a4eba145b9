import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from whichwhen.errors import DataError
from whichwhen.evaluation.ranking import RankedScores, auprc, auroc


@st.composite
def scored(draw, classes=None):
    """Scores on a coarse grid (so that ties occur), labels and whole weights."""
    rng = np.random.default_rng(draw(st.integers(0, 10_000)))
    n, classes = draw(st.integers(4, 40)), classes or draw(st.integers(2, 4))
    scores = rng.integers(0, draw(st.integers(1, 8)), (n, classes)) / 8
    return scores, rng.integers(0, classes, n), rng.integers(0, 3, n).astype(float)


def test_auroc_is_the_share_of_pairs_in_the_right_order():
    scores, labels = np.array([0.1, 0.4, 0.4, 0.8]), np.array([0, 0, 1, 1])
    assert auroc(scores, labels) == pytest.approx((1 + 0.5 + 1 + 1) / 4)  # of 4 pairs one is a tie


def test_auprc_of_a_hand_example():
    """From the top: hit, miss, hit: precision 1 at recall 1/2, 2/3 at recall 1."""
    assert auprc(np.array([0.9, 0.5, 0.3]), np.array([1, 0, 1])) == pytest.approx((1 + 2 / 3) / 2)


def test_constant_scores_give_one_half_and_the_share_of_positives():
    labels = np.array([0, 1, 0, 0, 1])
    assert auroc(np.full(5, 0.3), labels) == 0.5
    assert auprc(np.full(5, 0.3), labels) == pytest.approx(0.4)
    three = np.array([0, 1, 2, 2])
    assert auroc(np.full((4, 3), 1 / 3), three) == 0.5
    assert auprc(np.full((4, 3), 1 / 3), three) == pytest.approx(1 / 3)


def test_perfect_and_reversed_orders_give_1_and_0():
    labels = np.array([0, 0, 1])
    assert auroc(np.array([0.1, 0.2, 0.9]), labels) == auprc(np.array([0.1, 0.2, 0.9]), labels) == 1
    assert auroc(np.array([0.9, 0.8, 0.1]), labels) == 0


@pytest.mark.parametrize("metric", [auroc, auprc])
def test_a_missing_class_leaves_nothing_to_rank(metric):
    assert metric(np.array([0.2, 0.7]), np.array([1, 1])) is None
    assert metric(np.array([0.2, 0.7]), np.array([0, 0])) is None
    assert metric(np.eye(3)[[0, 1, 0]], np.array([0, 1, 0])) is None
    assert metric(np.array([0.2, 0.7]), np.array([0, 1]), np.array([1.0, 0.0])) is None
    assert metric(np.array([0.2, 0.7]), np.array([0, 1]), np.zeros(2)) is None


@settings(deadline=None, max_examples=25)
@given(scored(classes=2))
def test_two_columns_are_the_second_one_and_only_the_order_counts(example):
    scores, labels, weights = example
    assert auroc(scores, labels, weights) == auroc(scores[:, 1], labels, weights)
    moved = auroc(np.exp(3 * scores[:, 1]) - 7, labels, weights)
    assert moved == pytest.approx(auroc(scores[:, 1], labels, weights))


@settings(deadline=None, max_examples=25)
@given(scored(classes=2))
def test_the_other_class_has_the_same_auroc(example):
    scores, labels, weights = example
    one, other = auroc(scores[:, 1], labels, weights), auroc(-scores[:, 1], 1 - labels, weights)
    assert one == (None if other is None else pytest.approx(other))


@settings(deadline=None, max_examples=25)
@given(scored())
@pytest.mark.parametrize("metric", [auroc, auprc])
def test_a_whole_weight_is_a_repetition(metric, example):
    scores, labels, weights = example
    times = weights.astype(int)
    if times.sum() == 0:
        return
    repeated = metric(scores.repeat(times, 0), labels.repeat(times))
    found = metric(scores, labels, weights)
    assert found == (None if repeated is None else pytest.approx(repeated))


@settings(deadline=None, max_examples=25)
@given(scored())
def test_sorting_once_gives_the_same_areas_for_any_weights(example):
    scores, labels, weights = example
    ranked = RankedScores.of(scores, labels)
    for own in (weights, np.ones(len(labels)), np.where(weights > 0, 0.3, 0.0)):
        for name, metric in (("auroc", auroc), ("auprc", auprc)):
            expected = metric(scores, labels, own)
            assert ranked.metric(name, own) == (None if expected is None else pytest.approx(expected))


@pytest.mark.parametrize(
    ("scores", "labels", "weights", "message"),
    [
        (np.zeros((3, 1)), np.zeros(3), None, r"shape \(3, 1\)"),
        (np.zeros(3), np.zeros(2), None, r"labels of shape \(2,\)"),
        (np.zeros(0), np.zeros(0), None, "no series"),
        (np.array([0.1, np.nan]), np.array([0, 1]), None, "row 1; expected finite"),
        (np.zeros(2), np.array([0, 2]), None, "label 2 in row 1; expected whole numbers from 0 to 1"),
        (np.zeros(2), np.array([0, 0.5]), None, "label 0.5"),
        (np.zeros(2), np.array([0, 1]), np.array([1.0, -1.0]), "weight -1.0 in row 1"),
        (np.zeros(2), np.array([0, 1]), np.ones(3), r"weights of shape \(3,\)"),
    ],
)
def test_what_can_not_be_ranked_is_named(scores, labels, weights, message):
    for metric in (auroc, auprc):
        with pytest.raises(DataError, match=message):
            metric(scores, labels, weights)
