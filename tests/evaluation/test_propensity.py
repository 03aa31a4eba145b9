import numpy as np
import pytest

from whichwhen.errors import DataError
from whichwhen.evaluation.propensity import AnswerModel, JointAnswerModel, history_features


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def test_history_is_what_was_held_before_the_step():
    nan = np.nan
    values = np.array([[[1.0, nan], [nan, 5.0], [3.0, nan]]])
    found = history_features(values, at_hand=np.array([[[7.0], [8.0], [9.0]]]))
    assert found[0].tolist() == [
        [0, 0, 0, 0, 0, 7],  # last values, whether there are any, step, at hand
        [1, 0, 1, 0, 1, 8],
        [1, 5, 1, 1, 2, 9],
    ]


def test_history_does_not_know_the_step_itself_or_what_comes_later():
    rng = np.random.default_rng(0)
    values = rng.standard_normal((5, 6, 3))
    changed = values.copy()
    changed[:, 3:] = np.nan
    assert np.array_equal(history_features(values)[:, :4], history_features(changed)[:, :4])


def test_the_chances_of_each_order_are_found():
    rng = np.random.default_rng(1)
    features = rng.standard_normal((800, 5, 2))
    chance = sigmoid(np.stack([0.5 + features[..., 0], -1 + 2 * features[..., 1]], -1))
    held = rng.random(chance.shape) < chance
    found = AnswerModel.fit(features, held, np.full(800, 5)).predict(features)
    assert np.abs(found - chance).mean() < 0.02


def test_steps_after_the_end_are_not_learned_from():
    rng = np.random.default_rng(2)
    features, held = rng.standard_normal((50, 4, 1)), rng.random((50, 4, 1)) < 0.5
    lengths = rng.integers(1, 5, 50)
    past = (np.arange(4) >= lengths[:, None])[..., None]
    one = AnswerModel.fit(features, held, lengths).predict(features)
    other = AnswerModel.fit(features, held & ~past, lengths).predict(features)
    assert np.array_equal(one, other)


def test_an_order_that_is_always_held_is_certain_and_one_that_never_was_is_not_impossible():
    held = np.stack([np.ones((6, 3)), np.zeros((6, 3))], 2).astype(bool)
    features = np.zeros((6, 3, 1))
    model = AnswerModel.fit(features, held, np.full(6, 3))
    assert (model.predict(features)[..., 0] == 1).all()
    assert (model.predict(features)[..., 1] > 0).all()
    assert (model.predict(features)[..., 1] < 0.1).all()
    assert (model.of_steps(features, np.zeros_like(held)) == 1).all()


def test_a_step_is_as_likely_as_the_product_of_its_orders():
    rng = np.random.default_rng(3)
    features, held = rng.standard_normal((60, 4, 2)), rng.random((60, 4, 3)) < 0.7
    requested = rng.random(held.shape) < 0.5
    model = AnswerModel.fit(features, held, np.full(60, 4))
    each = model.predict(features)
    expected = np.prod(np.where(requested, each, 1), 2)
    assert model.of_steps(features, requested) == pytest.approx(expected)


def test_orders_that_come_together_are_seen_by_the_joint_model_alone():
    """One tube for both orders, drawn at 6 of 10 steps: asking for both is answered with .6, not .36."""
    rng = np.random.default_rng(4)
    tube = rng.random((3000, 1)) < 0.6
    held = np.repeat(tube[..., None], 2, 2)
    features, requested = rng.standard_normal((3000, 1, 1)), np.ones((3000, 1, 2), dtype=bool)
    each = AnswerModel.fit(features, held, np.ones(3000)).of_steps(features, requested)
    joint = JointAnswerModel.fit(features, requested, held).of_steps(features, requested)
    assert each.mean() == pytest.approx(0.36, abs=0.03)
    assert joint.mean() == pytest.approx(0.6, abs=0.03)


def test_the_joint_model_learns_from_series_that_were_answered_so_far():
    """A step after an unanswered one says nothing: here all of those are answered, which must not count."""
    requested = np.ones((40, 2, 1), dtype=bool)
    answered = np.zeros((40, 2, 1), dtype=bool)
    answered[:20, 0] = True
    answered[:10, 1] = True
    answered[20:, 1] = True
    features = np.tile([[0.0], [1.0]], (40, 1, 1))
    found = JointAnswerModel.fit(features, requested, answered).of_steps(features, requested)
    assert found == pytest.approx(np.full((40, 2), 0.5), abs=0.02)


def test_the_joint_model_of_no_requests_is_certain():
    nothing = np.zeros((3, 2, 2), dtype=bool)
    features = np.zeros((3, 2, 1))
    assert (JointAnswerModel.fit(features, nothing, nothing).of_steps(features, nothing) == 1).all()


def test_bad_features_are_named():
    features = np.zeros((2, 1, 3))
    features[1, 0, 2] = np.nan
    with pytest.raises(DataError, match="nan in series 1, step 0, column 2"):
        AnswerModel.fit(features, np.ones((2, 1, 1), dtype=bool), np.ones(2))
    with pytest.raises(DataError, match="expected"):
        JointAnswerModel.fit(np.zeros((2, 3, 1)), np.ones((2, 2, 1), dtype=bool), np.ones((2, 2, 1), dtype=bool))
