import numpy as np
import pytest

from whichwhen.evaluation.metrics import Metrics, real_fraction


def test_real_fraction_of_a_hand_example_with_a_shift():
    """Two real columns of four; they move from the front to the back at step 1."""
    real = np.array([[1, 1, 0, 0], [0, 0, 1, 1], [0, 0, 1, 1]], dtype=bool)
    requested = np.array([[3, 1, 2, 0], [4, 0, 1, 1]])  # real: 3 + 1 at step 0, 1 + 1 at step 1
    assert real_fraction(requested, real) == pytest.approx(6 / 12)


def test_real_fraction_of_nothing_requested_is_unknown():
    assert real_fraction(np.zeros((2, 3)), np.ones((2, 3), dtype=bool)) is None


def test_real_fraction_is_1_where_all_is_real_and_0_where_nothing_is():
    requested = np.array([[1, 2], [0, 5]])
    assert real_fraction(requested, np.ones((2, 2), dtype=bool)) == 1
    assert real_fraction(requested, np.zeros((2, 2), dtype=bool)) == 0


def test_metrics_are_written_under_their_names():
    found = Metrics(accuracy=0.5, loss=0.7, cost_per_step=2.0, real_fraction=None, n=3).to_dict()
    assert found.items() >= {"accuracy": 0.5, "loss": 0.7, "cost_per_step": 2.0, "real_fraction": None, "n": 3}.items()
    assert found.keys() - {"accuracy", "loss", "cost_per_step", "real_fraction", "n"} == {
        "auroc",
        "auprc",
        "requested_cost",
        "delivered_cost",
        "unanswered",
    }
