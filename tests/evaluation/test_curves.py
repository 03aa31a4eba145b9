from dataclasses import replace

import pytest

from builders import tiny_spec
from whichwhen.artifacts import load_result
from whichwhen.data import synthetic
from whichwhen.errors import RunFolderError
from whichwhen.evaluation.curves import accuracy_on_test
from whichwhen.training import train


def test_test_accuracy_per_epoch_comes_from_the_saved_epochs(tmp_path, monkeypatch):
    small = replace(synthetic.TASKS["fixed"], n_train=60, n_test=40, steps=4, n_features=5)
    monkeypatch.setitem(synthetic.TASKS, "fixed", small)
    spec = tiny_spec(data__name="synthetic:fixed", training__save_epochs=True, training__learning_rate=0.05)
    train(spec, tmp_path / "run")
    found, result = accuracy_on_test(tmp_path / "run"), load_result(tmp_path / "run")
    assert len(found) == 3
    assert found[result["best_epoch"] - 1] == result["test"]["accuracy"]


def test_a_run_without_saved_epochs_has_no_curve(tmp_path, tiny_data):
    train(tiny_spec(training__epochs=1), tmp_path / "run", data=tiny_data)
    with pytest.raises(RunFolderError, match="--save-epochs"):
        accuracy_on_test(tmp_path / "run")
