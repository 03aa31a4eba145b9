import numpy as np
import pytest

from whichwhen.errors import DataError
from whichwhen.evaluation.bootstrap import Scored, bootstrap_metric, paired_metric_difference
from whichwhen.evaluation.frontier import difference_at_cost, frontier_rows, gap_closed


def points(name, strengths, costs, n=400, seed=0):
    """A policy at several budgets: stronger signals for more money; two seeds on the same series."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, n)
    noise = np.random.default_rng(seed).standard_normal((2, n))
    return [
        Scored(name, i, list(strength * labels + noise), [labels] * 2, [2 * cost] * 2, [cost, cost])
        for i, (strength, cost) in enumerate(zip(strengths, costs, strict=True))
    ]


def test_rows_say_what_was_paid_for_which_quality():
    rows = frontier_rows("auroc", points("learned", (0.5, 1.0), (1.0, 3.0)), draws=50)
    assert [(row.policy, row.budget, row.delivered_cost, row.requested_cost) for row in rows] == [
        ("learned", 0, 1, 2),
        ("learned", 1, 3, 6),
    ]
    assert all(row.low < row.value < row.high and row.n == 400 and row.n_seeds == 2 for row in rows)
    assert rows[0].value < rows[1].value
    assert rows[0].to_dict()["metric"] == "auroc"
    one_seed = Scored("one", None, [np.arange(4.0)], [np.array([0, 1, 0, 1])], [1.0], [1.0])
    assert frontier_rows("accuracy", [one_seed], draws=5)[0].std is None


def test_at_a_cost_where_both_were_run_the_difference_is_the_paired_one():
    learned, random = points("learned", (1.0,), (2.0,))[0], points("random", (0.2, 0.6, 0.8), (1.0, 2.0, 3.0), seed=1)
    found = difference_at_cost("auroc", learned, random, draws=50)
    expected = paired_metric_difference("auroc", learned.scores, random[1].scores, learned.labels, draws=50)
    assert (found.mean, found.low, found.high) == pytest.approx((expected.mean, expected.low, expected.high))


def test_between_two_budgets_the_other_frontier_is_straight():
    learned, random = points("learned", (1.0,), (1.25,))[0], points("random", (0.6, 0.2), (2.0, 1.0), seed=1)
    values = [bootstrap_metric("auroc", point, draws=2).value for point in (learned, *random)]
    for kind in ("delivered", "requested"):
        found = difference_at_cost("auroc", learned, random, kind, draws=20)
        assert found.mean == pytest.approx(values[0] - 0.25 * values[1] - 0.75 * values[2])
        assert found.low <= found.mean <= found.high


def test_nothing_is_extrapolated():
    others = points("random", (0.2, 0.6), (1.0, 2.0))
    for cost in (0.9, 2.1):
        assert difference_at_cost("auroc", points("learned", (1.0,), (cost,))[0], others, draws=2) is None
    assert difference_at_cost("auroc", others[0], [], draws=2) is None


def test_policies_with_other_seeds_are_not_compared():
    one = points("learned", (1.0,), (1.0,))[0]
    other = Scored("random", 1, one.scores[:1], one.labels[:1], [1.0], [1.0])
    with pytest.raises(DataError, match="1 seeds against 2"):
        difference_at_cost("auroc", one, [other], draws=2)
    with pytest.raises(DataError, match="has no requested cost"):
        frontier_rows("auroc", [Scored("x", None, one.scores, one.labels)], draws=2)


def test_the_share_of_the_gap_that_is_closed():
    assert gap_closed(0.83, 0.80, 0.84) == pytest.approx(0.75)
    assert gap_closed(0.79, 0.80, 0.84) < 0
    assert gap_closed(0.8, 0.8, 0.8) is None
