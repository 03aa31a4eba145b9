from dataclasses import replace

import numpy as np
import pytest
import torch

from builders import ACQUIRERS, tiny_dataset, tiny_spec
from whichwhen.budget import PerStep, Unlimited
from whichwhen.errors import FeatureError, SpecError
from whichwhen.model import make_model


@pytest.fixture(scope="module")
def data():
    return tiny_dataset()


def same(one, other):
    return one.keys() == other.keys() and all(torch.equal(tensor, other[name]) for name, tensor in one.items())


@pytest.mark.parametrize("kind", ACQUIRERS)
def test_a_model_depends_on_its_seed_and_not_on_torch_s_own_randomness(kind, data):
    torch.manual_seed(0)
    before = torch.get_rng_state()
    one = make_model(tiny_spec(acquirer__kind=kind), data)
    assert torch.equal(before, torch.get_rng_state())
    torch.manual_seed(1)
    assert same(one.tensors(), make_model(tiny_spec(acquirer__kind=kind), data).tensors())
    assert not same(one.tensors(), make_model(tiny_spec(acquirer__kind=kind, seed=1), data).tensors())


def test_the_card_binds_columns_classes_and_scaling(data):
    scaler = replace(data.scaler, mean=np.arange(5.0), std=np.arange(1.0, 6.0))
    card = make_model(tiny_spec(), replace(data, scaler=scaler)).card
    assert card.features == ("x0", "x1", "x2", "x3", "x4")
    assert card.classes == data.classes
    assert card.horizon == 7
    assert card.mean == (0, 1, 2, 3, 4)
    assert card.std == (1, 2, 3, 4, 5)


def test_complete_has_no_limit_and_the_others_the_spec_s(data):
    assert make_model(tiny_spec(acquirer__kind="complete"), data).policy.budget == Unlimited()
    assert make_model(tiny_spec(), data).policy.budget == PerStep(2)


@pytest.mark.parametrize("amount", [0.5, 6])
def test_a_budget_that_does_not_fit_the_menu_is_refused(amount, data):
    with pytest.raises(SpecError, match="budget"):
        make_model(tiny_spec(budget__per_step=amount), data)


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (["x0", "x1", "x2", "x3"], "without 'x4'"),
        (["x0", "x1", "x2", "x3", "x4", "y"], "unknown 'y'"),
        (["x0", "x1", "x2", "x3", "y"], "without 'x4'.*unknown 'y'"),
        (["x1", "x0", "x2", "x3", "x4"], "another order.*'x1' stands where 'x0'"),
    ],
)
def test_other_columns_are_refused_by_name(names, words, data):
    model = make_model(tiny_spec(), data)
    model.check_features(["x0", "x1", "x2", "x3", "x4"])
    with pytest.raises(FeatureError, match=words) as error:
        model.check_features(names)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "edit",
    [
        lambda tensors: tensors.pop("predictor.logits.bias"),
        lambda tensors: tensors.update({"predictor.more": torch.zeros(1)}),
        lambda tensors: tensors.update({"more": torch.zeros(1)}),
        lambda tensors: tensors.update({"predictor.logits.bias": torch.zeros(9)}),
    ],
    ids=["one short", "one too many", "one of nobody", "another shape"],
)
def test_weights_that_do_not_fit_are_refused(edit, data):
    model = make_model(tiny_spec(), data)
    tensors = dict(model.tensors())
    edit(tensors)
    with pytest.raises(RuntimeError):
        model.load_tensors(tensors)


def test_the_static_acquirer_is_fitted_on_the_training_split_alone(data):
    spec = tiny_spec(acquirer__kind="static")
    others = {
        name: replace(data.split(name), values=data.split(name).values + 9, labels=1 - data.split(name).labels % 2)
        for name in ("validation", "test")
    }
    expected = make_model(spec, data).policy.acquirer.scores
    changed = replace(data, validation=others["validation"], tests={"test": others["test"]})
    assert torch.equal(make_model(spec, changed).policy.acquirer.scores, expected)
    other_labels = replace(data.train, labels=np.random.default_rng(0).permutation(data.train.labels))
    assert not torch.equal(make_model(spec, replace(data, train=other_labels)).policy.acquirer.scores, expected)
    assert expected[0].argsort(descending=True)[:2].sort().values.tolist() == [0, 1]  # the real columns


def bin_edges(model):
    return next(tensor for name, tensor in model.tensors().items() if name.endswith("edges"))


def test_the_bins_of_a_predictor_are_laid_by_the_training_split_alone(data, monkeypatch):
    spec = tiny_spec(predictor__bins=4)
    expected = bin_edges(make_model(spec, data))
    levels = np.linspace(0.01, 0.99, 5)
    assert np.allclose(expected, np.quantile(data.train.values, levels, axis=0).T, atol=1e-5)
    others = {name: replace(data.split(name), values=data.split(name).values + 9) for name in ("validation", "test")}
    changed = replace(data, validation=others["validation"], tests={"test": others["test"]})
    assert torch.equal(bin_edges(make_model(spec, changed)), expected)
    monkeypatch.setattr("whichwhen.model.BIN_CELLS", data.train.values.size // 2)  # of a larger set, a sample
    some = bin_edges(make_model(spec, data))
    assert not torch.equal(some, expected)
    assert np.allclose(some[:, 2], expected[:, 2], atol=0.5)  # the medians
