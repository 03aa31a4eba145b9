import json
from dataclasses import asdict

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from builders import recipe_spec, tiny_dataset, tiny_spec
from whichwhen.errors import RunFolderError
from whichwhen.model import make_model
from whichwhen.training import fit, fit_recipe
from whichwhen.training.checkpoints import (
    TrainState,
    load_checkpoint,
    load_optimizer_tensors,
    optimizer_tensors,
    save_checkpoint,
)


@pytest.fixture(scope="module", params=["epochs", "recipe"])
def state(request):
    data = tiny_dataset(n_train=12)
    if request.param == "epochs":
        state = fit(make_model(tiny_spec(training__epochs=2), data), data)
    else:
        spec = recipe_spec(training__effort=0.002, acquirer__trees=5)
        state = fit_recipe(make_model(spec, data), data).state
        assert state.extra
        assert state.facts
    state.best, state.best_epoch = {name: tensor - 1 for name, tensor in state.weights.items()}, 1
    return state


@pytest.fixture
def path(state, tmp_path):
    save_checkpoint(tmp_path / "checkpoint.safetensors", state, "hash")
    return tmp_path / "checkpoint.safetensors"


def test_a_checkpoint_comes_back_as_it_was(state, path):
    found = load_checkpoint(path, "hash")
    for name, expected in asdict(state).items():
        part = getattr(found, name)
        if name == "rounds":  # each sitting knows it anew
            assert part is None
        elif name in ("weights", "best", "optimizer", "extra"):
            assert part.keys() == expected.keys()
            assert all(torch.equal(tensor, expected[place]) for place, tensor in part.items())
            assert all(tensor.dtype == expected[place].dtype for place, tensor in part.items())
        else:
            assert part == json.loads(json.dumps(expected))  # a tuple may have become a list
    assert len(found.history) > 1
    assert found.optimizer


def test_a_checkpoint_of_another_spec_is_refused(path):
    with pytest.raises(RunFolderError, match="another spec"):
        load_checkpoint(path, "other")


def facts_of(path):
    with safe_open(path, "pt") as file:
        return json.loads(file.metadata()["state"])


def with_tensors(path, tensors):
    save_file(tensors, path, {"state": json.dumps(facts_of(path))})


def with_facts(path, content):
    save_file(load_file(path), path, {"state": content})


@pytest.mark.parametrize(
    "damage",
    [
        lambda path: path.unlink(),
        lambda path: path.write_bytes(b""),
        lambda path: path.write_bytes(path.read_bytes()[:-30]),
        lambda path: save_file({"a": torch.zeros(1)}, path),
        lambda path: with_facts(path, "{"),
        lambda path: with_facts(path, "{}"),
        lambda path: with_facts(path, json.dumps({"spec_hash": "hash"})),
        lambda path: with_facts(path, json.dumps(facts_of(path) | {"best_epoch": 99})),
        lambda path: with_tensors(path, {k: v for k, v in load_file(path).items() if not k.startswith("optimizer/")}),
        lambda path: with_tensors(path, {**load_file(path), "foo": torch.zeros(1)}),
    ],
    ids=[
        "gone",
        "empty",
        "cut off",
        "foreign",
        "bad JSON",
        "no facts",
        "half the facts",
        "no such epoch",
        "no optimizer",
        "more",
    ],
)
def test_a_file_that_is_no_checkpoint_is_refused_in_one_line(damage, path):
    damage(path)
    with pytest.raises(RunFolderError) as error:
        load_checkpoint(path, "hash")
    assert "\n" not in str(error.value)


def test_a_failed_write_leaves_the_checkpoint_before_it(state, path, monkeypatch):
    before = path.read_bytes()

    def fails(*_):
        raise OSError("no space left on device")

    monkeypatch.setattr("whichwhen.training.checkpoints.save_file", fails)
    with pytest.raises(OSError, match="no space"):
        save_checkpoint(path, TrainState(), "hash")
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


def test_an_optimizer_goes_on_from_its_tensors():
    def steps(weights, optimizer, count):
        for _ in range(count):
            optimizer.zero_grad()
            (weights**3).sum().backward()
            optimizer.step()

    whole, first = (torch.tensor([1.0, -2.0, 3.0], requires_grad=True) for _ in range(2))
    steps(whole, torch.optim.AdamW([whole], lr=0.1), 5)
    optimizer = torch.optim.AdamW([first], lr=0.1)
    steps(first, optimizer, 2)
    later = first.detach().clone().requires_grad_()
    other = torch.optim.AdamW([later], lr=0.1)
    load_optimizer_tensors(other, {name: tensor.clone() for name, tensor in optimizer_tensors(optimizer).items()})
    steps(later, other, 3)
    assert torch.equal(whole, later)
