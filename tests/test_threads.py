"""Torch's number of threads: one while something trains or predicts, and what it was before afterwards."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import whichwhen as ww
from builders import recipe_spec, tiny_dataset, tiny_spec
from whichwhen.estimator import classifier
from whichwhen.threads import torch_threads
from whichwhen.training import run as training_run
from whichwhen.training import train


@pytest.fixture
def three() -> Iterator[None]:
    """A caller who has set three threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    yield
    torch.set_num_threads(before)


def seen_by(monkeypatch: pytest.MonkeyPatch, module: Any, name: str) -> list[int]:
    """Numbers of threads at each call of a function."""
    found: list[int] = []
    real = getattr(module, name)

    def spy(*words: Any, **named: Any) -> Any:
        found.append(torch.get_num_threads())
        return real(*words, **named)

    monkeypatch.setattr(module, name, spy)
    return found


def refuse(*_: Any, **__: Any) -> None:
    raise RuntimeError("no")


@pytest.mark.parametrize("spec", [tiny_spec(training__epochs=1), recipe_spec()], ids=["epochs", "recipe"])
@pytest.mark.usefixtures("three")
def test_training_uses_one_thread_and_gives_the_others_back(
    spec: ww.RunSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fits = seen_by(monkeypatch, training_run, "fit_model")
    train(spec, tmp_path / "run", data=tiny_dataset())
    assert fits == [1]
    assert torch.get_num_threads() == 3


@pytest.mark.usefixtures("three")
def test_training_uses_as_many_as_it_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fits = seen_by(monkeypatch, training_run, "fit_model")
    train(tiny_spec(training__epochs=1), tmp_path / "run", data=tiny_dataset(), threads=2)
    assert fits == [2]
    assert torch.get_num_threads() == 3


@pytest.mark.usefixtures("three")
def test_training_that_fails_gives_them_back_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training_run, "fit_model", refuse)
    with pytest.raises(RuntimeError, match="no"):
        train(tiny_spec(), tmp_path / "run", data=tiny_dataset())
    assert torch.get_num_threads() == 3


@pytest.mark.usefixtures("three")
def test_the_estimator_fits_and_predicts_with_one_and_gives_the_others_back(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((20, 3, 4)), np.arange(20) % 2
    fits, looks = (seen_by(monkeypatch, classifier, name) for name in ("fit_model", "evaluate"))
    clf = ww.AcquisitionClassifier(1, effort=0.005, width=4, layers=1, settings={"acquirer__trees": 5}, random_state=0)
    clf.fit(X, y)
    assert torch.get_num_threads() == 3
    clf.predict(X)
    clf.acquire(X)
    assert torch.get_num_threads() == 3
    assert (fits, looks) == ([1], [1, 1])
    monkeypatch.setattr(classifier, "fit_model", refuse)
    with pytest.raises(RuntimeError, match="no"):
        clf.fit(X, y)
    assert torch.get_num_threads() == 3


@pytest.mark.usefixtures("three")
def test_within_it_is_the_number_asked_for() -> None:
    with torch_threads(2):
        assert torch.get_num_threads() == 2
    assert torch.get_num_threads() == 3
