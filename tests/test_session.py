import json
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file

from builders import PREDICTORS, tiny_batch, tiny_dataset, tiny_policy, tiny_spec
from whichwhen.errors import SessionError
from whichwhen.menu import Feature, Menu, Order
from whichwhen.model import make_model
from whichwhen.rollout import inference, roll_out
from whichwhen.session import Session
from whichwhen.types import tree_map

CLASSES = ("a", "b", "c")
NAMES = tuple(f"x{i}" for i in range(5))
READS = {"context": {"context": True}, "memory": {"memory": 4}, "waves": {"value_features": 2}}
ACQUIRERS = ("learned", *READS, "table", "random", "round-robin", "static-by-time", "complete", "none")


def policy_of(acquirer, predictor):
    """``context``, ``memory`` and ``waves`` stand for the learned acquirer with these."""
    return tiny_policy("learned" if acquirer in READS else acquirer, predictor, **READS.get(acquirer, {}))


def open_session(policy, key=13, mean=0.0, std=1.0, fingerprint="me"):
    return Session(policy, CLASSES, np.full(5, mean), np.full(5, std), fingerprint, key)


def answer(session, row):
    """The values that the session asks for, from a row of five."""
    return {name: float(row[NAMES.index(name)]) for name in session.request}


def run_session(session, rows):
    """Requests before each step and outcomes after it."""
    requests, outcomes = [], []
    for row in rows:
        requests.append(session.request)
        outcomes.append(session.observe(answer(session, row)))
    return requests, outcomes


@pytest.fixture(scope="module")
def model():
    return make_model(tiny_spec(), tiny_dataset())


# -- the same answers as in evaluation


@pytest.mark.parametrize("predictor", PREDICTORS)
@pytest.mark.parametrize("acquirer", ACQUIRERS)
def test_a_session_gives_the_requests_and_predictions_of_the_rollout(acquirer, predictor):
    policy, batch = policy_of(acquirer, predictor), tiny_batch((7, 4))
    with inference(policy):
        record = roll_out(policy, batch)
    for i, length in enumerate(batch.lengths.tolist()):
        requests, outcomes = run_session(open_session(policy, int(batch.keys[i])), batch.values[i, :length])
        for t in range(length):
            assert requests[t] == tuple(NAMES[k] for k in record.selections.order[i, t].tolist() if k >= 0)
            expected = torch.softmax(record.logits[i, t].double(), 0)
            assert list(outcomes[t].probabilities.values()) == pytest.approx(expected.tolist(), abs=1e-5)
            assert outcomes[t].prediction == CLASSES[expected.argmax()]
            assert outcomes[t].time == t
            assert outcomes[t].cost == record.cost[i, t]
        assert [outcome.request for outcome in outcomes[:-1]] == requests[1:]


def test_total_cost_is_what_the_rollout_bills():
    policy, batch = tiny_policy(budget=3), tiny_batch((6,))
    session = open_session(policy)
    run_session(session, batch.values[0])
    with inference(policy):
        assert session.total_cost == roll_out(policy, batch).cost.sum()
    assert session.total_cost == 18
    assert session.time == 6


def test_raw_values_are_scaled_as_in_training():
    policy, batch = tiny_policy(), tiny_batch((5,))
    plain, scaled = open_session(policy), open_session(policy, mean=10.0, std=4.0)
    for row in batch.values[0]:
        one, other = plain.observe(answer(plain, row)), scaled.observe(answer(scaled, 4 * row + 10))
        assert one.request == other.request
        assert list(one.probabilities.values()) == pytest.approx(list(other.probabilities.values()), abs=1e-4)


def test_a_model_s_session_is_bound_to_its_classes_scaling_and_weights():
    data = tiny_dataset()
    rng = np.random.default_rng(0)
    scaler = replace(data.scaler, mean=rng.normal(size=5), std=rng.uniform(1, 2, 5))
    model = make_model(tiny_spec(), replace(data, scaler=scaler))
    session, batch = model.session(), tiny_batch((4,))
    with inference(model.policy):
        record = roll_out(model.policy, batch)
    for t, row in enumerate(batch.values[0].numpy()):
        outcome = session.observe(answer(session, row * scaler.std + scaler.mean))
        expected = torch.softmax(record.logits[0, t].double(), 0).tolist()
        assert list(outcome.probabilities.values()) == pytest.approx(expected, abs=1e-5)
    assert tuple(outcome.probabilities) == data.classes
    assert session.fingerprint == model.fingerprint


def test_the_key_decides_random_requests():
    policy, rows = tiny_policy("random"), torch.zeros(6, 5)
    first, again, other = (run_session(open_session(policy, key), rows)[0] for key in (1, 1, 2))
    assert first == again
    assert first != other


def test_sessions_side_by_side_do_not_disturb_each_other(model):
    rows = tiny_batch((6, 6)).values
    apart = [run_session(model.session(), series)[1] for series in rows]
    one, two = model.session(), model.session()
    mixed = [(one.observe(answer(one, a)), two.observe(answer(two, b))) for a, b in zip(*rows, strict=True)]
    assert [pair[0] for pair in mixed] == apart[0]
    assert [pair[1] for pair in mixed] == apart[1]


def test_a_session_uses_neither_dropout_nor_gradients_and_leaves_the_mode_alone(model):
    model.policy.predictor.train()
    outcomes = [run_session(model.session(), tiny_batch((4,)).values[0])[1] for _ in range(2)]
    assert outcomes[0] == outcomes[1]
    assert model.policy.predictor.training


# -- less and more than was asked for


@pytest.mark.parametrize("nothing", [None, math.nan, np.float64("nan"), np.float32("nan")], ids=repr)
def test_none_and_nan_count_as_not_measured(nothing):
    policy = tiny_policy()
    session, other = open_session(policy), open_session(policy)
    asked = session.request
    found = session.observe({asked[0]: 1.0, asked[1]: nothing})
    assert found == other.observe({asked[0]: 1.0})
    assert found.cost == session.total_cost == 2  # what was asked for is billed, as in the rollout


def test_a_value_that_was_not_asked_for_is_used():
    policy = tiny_policy()
    session, other = open_session(policy), open_session(policy)
    extra = next(name for name in NAMES if name not in session.request)
    assert session.observe({extra: 2.0}).probabilities != other.observe({}).probabilities


def test_what_nobody_asked_for_is_named_and_costs_nothing():
    session = open_session(tiny_policy())
    asked = session.request
    others = tuple(name for name in NAMES if name not in asked)
    outcome = session.observe({asked[0]: 1.0, others[1]: 2.0, others[0]: 1.0, others[2]: None})
    assert outcome.by_others == others[:2]
    assert outcome.cost == session.total_cost == 2
    assert session.observe({}).by_others == ()


def test_free_channels_and_late_results_are_not_by_others():
    menu = Menu(
        tuple(Feature(name) for name in NAMES),
        (Order("x0", ("x0",), cost=0.0, free=True), *(Order(name, (name,), turnaround=2) for name in NAMES[1:])),
    )
    session = open_session(tiny_policy(menu=menu, budget=1))
    (asked,) = session.request
    other = next(name for name in NAMES[1:] if name != asked)
    assert session.observe({"x0": 1.0, other: 1.0}).by_others == (other,)  # the result of what was asked takes two steps
    assert session.observe({"x0": 1.0, asked: 1.0, other: 1.0}).by_others == (other,)


@settings(max_examples=25, deadline=None)
@given(
    acquirer=st.sampled_from(("learned", "context", "table", "random", "static-by-time", "none")),
    seed=st.integers(0, 99),
    held=st.floats(0.0, 1.0),
)
def test_values_of_others_count_as_those_of_free_orders_do_in_evaluation(acquirer, seed, held):
    """Two menus of one policy: x3 and x4 come by themselves where the record has them, or are out of reach and come unasked."""
    kind, context = ("learned", True) if acquirer == "context" else (acquirer, False)
    features = tuple(Feature(name) for name in NAMES)
    own = tuple(Order(name, (name,)) for name in NAMES[:3])
    free = Menu(features, (*own, *(Order(name, (name,), cost=0.0, free=True) for name in NAMES[3:])))
    dear = Menu(features, (*own, *(Order(name, (name,), cost=99.0) for name in NAMES[3:])))
    policy = tiny_policy(kind, menu=free, seed=seed, context=context)
    batch = tiny_batch((6,), seed=seed)
    observed = batch.observed & (torch.rand(batch.observed.shape, generator=torch.Generator().manual_seed(seed)) < held)
    batch = replace(batch, observed=observed, values=batch.values * observed)
    with inference(policy):
        record = roll_out(policy, batch)
    session = open_session(replace(policy, menu=dear), int(batch.keys[0]))
    for t in range(6):
        assert session.request == tuple(NAMES[k] for k in record.selections.order[0, t].tolist() if k >= 0)
        there = [i for i, name in enumerate(NAMES) if observed[0, t, i] and (i > 2 or name in session.request)]
        outcome = session.observe({NAMES[i]: float(batch.values[0, t, i]) for i in there})
        assert outcome.by_others == tuple(NAMES[i] for i in there if i > 2)
        assert outcome.cost == record.cost[0, t]
        expected = torch.softmax(record.logits[0, t].double(), 0).tolist()
        assert list(outcome.probabilities.values()) == pytest.approx(expected, abs=1e-5)


def test_a_measured_zero_differs_from_nothing_measured():
    policy = tiny_policy()
    session, other = open_session(policy), open_session(policy)
    assert session.observe({session.request[0]: 0.0}).probabilities != other.observe({}).probabilities


# -- refusals


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"x0 ": 1.0}, "'x0 '.*did you mean 'x0'"),
        ({"heart rate": 1.0}, "'heart rate'.*5 features"),
        ({"x0": math.inf}, "inf.*'x0'.*finite"),
        ({"x1": -math.inf}, "-inf.*'x1'"),
        ({"x0": "high"}, "'high'.*'x0'"),
        ({"x0": 1e300}, "1e\\+300.*'x0'"),
        ({"x0": [1.0]}, "'x0'"),
    ],
)
def test_values_that_can_not_be_used_are_refused_and_leave_the_session_as_it_was(values, words):
    policy, rows = tiny_policy(), tiny_batch((3,)).values[0]
    session, other = open_session(policy), open_session(policy)
    session.observe(answer(session, rows[0]))
    other.observe(answer(other, rows[0]))
    with pytest.raises(SessionError, match=words) as error:
        session.observe({"x2": 1.0} | values)
    assert "\n" not in str(error.value)
    assert session.time == 1
    assert run_session(session, rows[1:]) == run_session(other, rows[1:])


# -- saved and restored


@pytest.mark.parametrize("predictor", PREDICTORS)
@pytest.mark.parametrize("acquirer", ["learned", *READS, "table", "random", "static"])
@pytest.mark.parametrize("stop", [0, 1, 4])
def test_a_restored_session_goes_on_as_if_nothing_had_happened(acquirer, predictor, stop, tmp_path):
    policy, rows = policy_of(acquirer, predictor), tiny_batch((7,)).values[0]
    whole, session = open_session(policy, key=5), open_session(policy, key=5)
    expected = run_session(whole, rows)
    run_session(session, rows[:stop])
    session.save(tmp_path / "session")
    later = open_session(policy, key=99)
    later.restore(tmp_path / "session")
    assert later.time == stop
    assert later.total_cost == session.total_cost
    requests, outcomes = run_session(later, rows[stop:])
    assert requests == expected[0][stop:]
    assert outcomes == expected[1][stop:]
    assert later.total_cost == whole.total_cost


def test_saving_again_replaces_the_file_and_leaves_no_other(tmp_path):
    session = open_session(tiny_policy())
    session.save(tmp_path / "session")
    session.observe({})
    session.save(tmp_path / "session")
    later = open_session(tiny_policy())
    later.restore(tmp_path / "session")
    assert later.time == 1
    assert [path.name for path in tmp_path.iterdir()] == ["session"]


def test_another_model_s_session_is_refused(model, tmp_path):
    session = model.session()
    session.observe({})
    session.save(tmp_path / "session")
    other = make_model(tiny_spec(seed=1), tiny_dataset())
    with pytest.raises(SessionError, match=model.fingerprint):
        other.session().restore(tmp_path / "session")
    wider = make_model(tiny_spec(predictor__width=9), tiny_dataset())
    with pytest.raises(SessionError, match=model.fingerprint):
        wider.session().restore(tmp_path / "session")
    lstm = make_model(tiny_spec(predictor__kind="lstm"), tiny_dataset())
    with pytest.raises(SessionError, match=model.fingerprint):
        lstm.session().restore(tmp_path / "session")


def test_a_model_whose_weights_have_moved_is_another_model(tmp_path):
    model = make_model(tiny_spec(), tiny_dataset())
    model.session().save(tmp_path / "session")
    with torch.no_grad():
        next(model.policy.predictor.parameters())[0, 0] += 1e-3
    with pytest.raises(SessionError, match="same model"):
        model.session().restore(tmp_path / "session")


def edited(path, facts):
    """The same tensors with other facts beside them."""
    save_file(load_file(path), path, {"session": json.dumps(facts)})


@pytest.mark.parametrize(
    "damage",
    [
        lambda path: path.unlink(),
        lambda path: path.write_bytes(b""),
        lambda path: path.write_bytes(path.read_bytes()[:-20]),
        lambda path: save_file({"a": torch.zeros(2)}, path),
        lambda path: save_file(load_file(path), path, {"session": "{"}),
        lambda path: edited(path, {}),
        lambda path: edited(path, {"fingerprint": "me"}),
        lambda path: edited(path, []),
        lambda path: save_file(
            {name: tensor for name, tensor in load_file(path).items() if name != "ledger.spent"},
            path,
            {"session": json.dumps({"time": 0, "total_cost": 0.0, "fingerprint": "me"})},
        ),
    ],
    ids=["gone", "empty", "cut off", "foreign", "bad JSON", "no facts", "half the facts", "other facts", "a tensor short"],
)
def test_a_file_that_is_no_saved_session_is_refused_and_leaves_the_session_as_it_was(damage, tmp_path):
    policy, rows = tiny_policy(), tiny_batch((4,)).values[0]
    session, other, path = open_session(policy), open_session(policy), tmp_path / "session"
    for one in (session, other):
        one.observe(answer(one, rows[0]))
    session.save(path)
    damage(path)
    with pytest.raises(SessionError, match="session"):
        session.restore(path)
    assert run_session(session, rows[1:]) == run_session(other, rows[1:])


def with_tensor(path, name, change):
    """The same file with one tensor changed, or (None) left out."""
    tensors = load_file(path)
    tensors[name] = change(tensors[name]) if name in tensors else change(torch.zeros(1))
    facts = {"time": 2, "total_cost": 4.0, "fingerprint": "me"}
    save_file(tensors, path, {"session": json.dumps(facts)})


@pytest.mark.parametrize("predictor", PREDICTORS)
@pytest.mark.parametrize(
    ("place", "change"),
    [
        ("selection.request", lambda tensor: torch.zeros(1, 9)),
        ("ledger.spent", lambda tensor: torch.zeros(2)),
        ("cost", lambda tensor: torch.zeros(1, 1)),
        ("scores.values", lambda tensor: tensor.double()),
        ("predictor", lambda tensor: torch.zeros(*tensor.shape[:-1], tensor.shape[-1] + 1)),
        ("predictor", lambda tensor: torch.cat([tensor, tensor])),
        ("stranger", lambda tensor: tensor),
    ],
    ids=["orders", "series", "dimensions", "kind", "width", "two series", "unknown"],
)
def test_a_saved_session_of_other_shapes_is_refused_and_leaves_the_session_as_it_was(place, change, predictor, tmp_path):
    policy, rows, path = tiny_policy(predictor=predictor), tiny_batch((4,)).values[0], tmp_path / "session"
    session, other = open_session(policy), open_session(policy)
    for one in (session, other):
        run_session(one, rows[:2])
    session.save(path)
    name = next((name for name in sorted(load_file(path)) if name.startswith(place)), place)
    with_tensor(path, name, change)
    with pytest.raises(SessionError, match=rf"session.*{name}"):
        session.restore(path)
    assert run_session(session, rows[2:]) == run_session(other, rows[2:])


@pytest.mark.parametrize("facts", [{"time": -1}, {"total_cost": math.nan}, {"total_cost": -1.0}], ids=str)
def test_a_saved_session_with_impossible_facts_is_refused(facts, tmp_path):
    session, path = open_session(tiny_policy()), tmp_path / "session"
    session.save(path)
    edited(path, {"time": 0, "total_cost": 0.0, "fingerprint": "me"} | facts)
    with pytest.raises(SessionError, match=next(iter(facts)).split("_")[-1]):
        session.restore(path)


def test_a_saved_session_holds_tensors_and_facts_and_no_pickle(tmp_path):
    session = open_session(tiny_policy())
    session.save(tmp_path / "session")
    tensors = load_file(tmp_path / "session")
    assert all(len(tensor) == 1 for tensor in tree_map(lambda tensor: tensor, tensors).values())
    assert not any("weight" in name for name in tensors)
