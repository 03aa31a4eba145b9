"""Settings under a name: the defaults, and the paper's own. No torch here, as in the specs."""

from __future__ import annotations

from typing import Literal

from whichwhen.specs import AcquirerSpec, BudgetSpec, DataSpec, PredictorSpec, RunSpec, SelectorSpec, TrainingSpec

Preset = Literal["default", "paper"]
PAPER_DATA = ("m-forda", "spoken-arabic-digits")
"""The data sets that the paper has sizes for; others get those of the first."""


def preset_spec(preset: Preset, dataset: str) -> RunSpec:
    """The settings that a preset stands for on a dataset.

    ``default``: the convolutional predictor, the gate as selector, training by the recipe.
    ``paper``: the paper's own sizes, selector and optimiser. What it does not say was chosen here: temperature 1, the mask
    among the classifier's inputs, straight-through samples, epochs until validation has levelled off.
    """
    digits = dataset == "spoken-arabic-digits"
    if preset == "default":
        return RunSpec(data=DataSpec(name=dataset))
    return RunSpec(
        data=DataSpec(name=dataset),
        budget=BudgetSpec(per_step=5.0),
        acquirer=AcquirerSpec(hidden=8 if digits else 4, time_features=0),
        predictor=PredictorSpec(kind="lstm", width=16, layers=3 if digits else 2, head=8, dropout=0.0, time_features=0),
        selector=SelectorSpec(kind="sequential", temperature=1.0, repeat="penalty"),
        training=TrainingSpec(
            epochs=400 if digits else 500,
            level_gain=0.002,
            min_epochs=100 if digits else 250,
            batch_size=1000,
            learning_rate=1e-3,
            weight_decay=0,
            schedule="constant",
            clip=0,
            gradient="full",
            step_loss=0,
        ),
    )
