import numpy as np
import pytest

from whichwhen.errors import DataError, SpecError
from whichwhen.evaluation.ranking import auroc
from whichwhen.evaluation.subgroups import subgroup_rows


def cohort(n=200, classes=2, seed=0):
    rng = np.random.default_rng(seed)
    probabilities = rng.dirichlet(np.ones(classes), n)
    columns = {"sex": rng.choice(["f", "m"], n), "unit": np.where(np.arange(n) < 5, "burns", "medical")}
    return columns, probabilities, rng.integers(0, classes, n), rng.random(n) * 9, rng.random(n)


def test_a_hand_example():
    rows = subgroup_rows(
        {"sex": np.array(["m", "f", "m", "m"])},
        np.array([0.2, 0.9, 0.8, 0.4]),
        np.array([0, 1, 1, 1]),
        np.array([4.0, 2.0, 6.0, 2.0]),
        np.array([1.0, 2.0, 3.0, 2.0]),
        smallest=2,
    )
    assert [(row.value, row.n, row.positives) for row in rows] == [("f", 1, 1), ("m", 3, 2)]
    women, men = rows
    assert (women.requested_cost, women.delivered_cost) == (2, 2)
    assert women.accuracy is women.auroc is women.mean_probability is women.observed_share is None
    assert (men.requested_cost, men.delivered_cost) == (4, 2)
    assert (men.accuracy, men.auroc) == (pytest.approx(2 / 3), 1)
    assert (men.mean_probability, men.observed_share) == (pytest.approx(1.4 / 3), pytest.approx(2 / 3))


@pytest.mark.parametrize("classes", [2, 3])
def test_the_groups_of_a_column_add_up_to_the_whole(classes):
    columns, probabilities, labels, requested, delivered = cohort(classes=classes)
    rows = subgroup_rows(columns, probabilities, labels, requested, delivered, smallest=1)
    for name in columns:
        own = [row for row in rows if row.column == name]
        sizes = np.array([row.n for row in own])
        assert sizes.sum() == len(labels)
        right = probabilities.argmax(1) == labels
        for field, expected in (("accuracy", right), ("requested_cost", requested), ("delivered_cost", delivered)):
            assert sizes @ [getattr(row, field) for row in own] == pytest.approx(expected.sum())
        if classes == 2:
            assert sum(row.positives for row in own) == (labels == 1).sum()
            assert sizes @ [row.observed_share for row in own] == pytest.approx((labels == 1).sum())
        else:
            assert all(row.positives is None and row.observed_share == row.accuracy for row in own)


def test_a_group_is_judged_as_if_it_were_alone():
    columns, probabilities, labels, requested, delivered = cohort()
    row = next(row for row in subgroup_rows(columns, probabilities, labels, requested, delivered) if row.value == "f")
    own = columns["sex"] == "f"
    assert row.auroc == auroc(probabilities[own], labels[own])


def test_small_groups_have_a_size_and_a_cost_but_no_quality():
    rows = subgroup_rows(*cohort())
    burns = next(row for row in rows if row.value == "burns")
    assert burns.n == 5
    assert burns.requested_cost > 0
    assert burns.to_dict()["auroc"] is None
    assert all(row.accuracy is not None for row in rows if row.value != "burns")


def test_a_group_of_one_class_has_no_auroc():
    rows = subgroup_rows({"a": np.array(["x"] * 20)}, np.full(20, 0.3), np.zeros(20, dtype=int), np.ones(20), np.ones(20))
    assert (rows[0].auroc, rows[0].accuracy) == (None, 1)


def test_columns_of_another_length_and_empty_limits_are_refused():
    columns, probabilities, labels, requested, delivered = cohort()
    with pytest.raises(DataError, match=r"'sex' of shape \(7,\)"):
        subgroup_rows({"sex": columns["sex"][:7]}, probabilities, labels, requested, delivered)
    with pytest.raises(DataError, match="'delivered cost'"):
        subgroup_rows(columns, probabilities, labels, requested, delivered[:3])
    with pytest.raises(SpecError, match="smallest group of 0"):
        subgroup_rows(columns, probabilities, labels, requested, delivered, smallest=0)
