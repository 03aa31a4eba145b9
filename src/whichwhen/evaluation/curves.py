"""Test accuracy per epoch, from weights that were saved on the way. For figures only: the run is over, the choice is made."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch

from whichwhen import artifacts
from whichwhen.data import load_dataset
from whichwhen.errors import RunFolderError
from whichwhen.evaluation.scoring import evaluate


def accuracy_on_test(
    folder: Path,
    data_dir: Path | None = None,
    device: torch.device | str = "cpu",
    epochs: Sequence[int] | None = None,
) -> list[float]:
    """Test accuracy after each saved epoch of a finished run, or after some of them (positions from 0)."""
    artifacts.check_finished(folder)
    saved = sorted((folder / artifacts.EPOCHS).glob("*.safetensors"))
    if not saved:
        raise RunFolderError(
            f"{folder} has no saved epochs",
            expected="a run trained with --save-epochs",
            do="train it so, or leave out --test-curve",
        )
    if epochs is not None:
        saved = [saved[i] for i in epochs]
    spec = artifacts.load_spec(folder)
    data = load_dataset(spec.data, spec.seed, data_dir)
    accuracies = []
    for path in saved:
        model = artifacts.load_model(path)
        for module in model.modules().values():
            module.to(device)
        model.check_features([feature.name for feature in data.features])
        model.check_classes(data.classes)
        accuracies.append(evaluate(model.policy, data.test, device=device).metrics.accuracy)
    return accuracies
