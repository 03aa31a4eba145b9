"""Settings under a name: the paper's own, and the best that there are. No torch here, as in the specs."""

from __future__ import annotations

from typing import Literal

from whichwhen.specs import AcquirerSpec, BudgetSpec, DataSpec, PredictorSpec, RunSpec, SelectorSpec, TrainingSpec

Preset = Literal["default", "paper", "best"]
PAPER_DATA = ("m-forda", "spoken-arabic-digits")
"""The data sets that the paper has sizes for; others get those of the first."""


def batch_size_for(n_series: int) -> int:
    """For data of one's own: ten batches or more in an epoch, from 4 series to 256."""
    return min(max(n_series // 10, 4), 256)


def preset_spec(preset: Preset, dataset: str) -> RunSpec:
    """The settings that a preset stands for on a dataset.

    ``default``: the convolutional predictor and one-shot top-k selection, which learn fast.
    ``best``: the same after a warm-up of the predictor on random masks; see :func:`best_spec` for what the acquirer adds.
    ``paper``: the paper's own sizes, selector and optimiser. What it does not say was chosen here: temperature 1, the mask
    among the classifier's inputs, straight-through samples, epochs until validation has levelled off.
    """
    digits = dataset == "spoken-arabic-digits"
    if preset == "default":
        return RunSpec(data=DataSpec(name=dataset))
    if preset == "best":
        return best_spec(DataSpec(name=dataset), AcquirerSpec())
    return RunSpec(
        data=DataSpec(name=dataset),
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


def best_spec(data: DataSpec, acquirer: AcquirerSpec, per_step: float = BudgetSpec().per_step) -> RunSpec:
    """The best settings that there are for a data set with its fakes, an acquirer, and a budget per step.

    The predictor and its training are the same for every acquirer of a data set; for the digits, whose test speakers are new,
    it is wider, and its series are moved and stretched a little in each epoch. What learns draws with more and more certainty
    towards the end; on the digits a quarter of its series ask at random until then. A table learns four times as fast as its
    predictor where features stay where they are (but on the digits). A learned acquirer is trained for every
    budget from 1 to 10 at once; where real features move, it learns under prices instead, and asks for as much as is worth it,
    up to the budget: requests that are worth nothing would go anywhere. On the digits, whose features change slowly, it takes
    turns, and does not read the values, which mislead it when a speaker is new.
    """
    predictor, training = PredictorSpec(), TrainingSpec(warm_up=15)
    if data.name == "spoken-arabic-digits":
        predictor = PredictorSpec(width=64, layers=5, dropout=0.2)
        stretch = 0.0 if data.shift else 0.15  # at another pace, features would move at other times
        training = TrainingSpec(epochs=40, warm_up=8, jitter=0.3, stretch=stretch, explore=0.25, choose_by="last")
    base = RunSpec(data=data, budget=BudgetSpec(per_step=per_step), acquirer=acquirer, predictor=predictor, training=training)
    if acquirer.kind == "table":
        still = not data.shift and data.name != "spoken-arabic-digits"
        return base.change(training__sharpen=20.0, training__acquirer_rate=4.0 if still else 1.0)
    if acquirer.kind != "learned":
        return base
    if data.shift:
        return base.change(budget__price=3e-5, budget__cap=per_step, budget__train_range=(3e-5, 3e-3), acquirer__budget=True)
    base = base.change(budget__train_range=(1, 10), acquirer__budget=True, training__sharpen=20.0)
    if data.name != "spoken-arabic-digits":
        return base
    reads = bool(acquirer.value_features or acquirer.context)  # somebody who asks for values gets them
    return base.change(budget__train_draw="even", training__sharpen=10.0, acquirer__turns=True, acquirer__values=reads)
