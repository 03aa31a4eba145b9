"""Small data sets, batches, specs and policies that several test modules build on."""

import numpy as np
import torch

from whichwhen.acquirers import make_acquirer
from whichwhen.budget import Budget, PerStep, Unlimited
from whichwhen.data import Dataset, Scaler, SeriesSet
from whichwhen.data.synthetic import SignalTask
from whichwhen.menu import Feature, Menu
from whichwhen.predictors import make_predictor
from whichwhen.provenance import Provenance
from whichwhen.rollout import Policy
from whichwhen.specs import AcquirerSpec, PredictorSpec, RunSpec
from whichwhen.types import Batch, Rollout

ACQUIRERS = (
    *("learned", "learned-only", "table", "random", "round-robin", "static", "static-by-time", "oracle", "complete", "none"),
)
PREDICTORS = ("conv", "lstm", "gru", "transformer")


def tiny_dataset(
    n_train: int = 40, n_features: int = 5, n_real: int = 2, n_classes: int = 3, longest: int = 7, seed: int = 0
) -> Dataset:
    """Series of 2 to ``longest`` steps; the first ``n_real`` columns tell the class, the others are noise."""
    rng = np.random.default_rng(seed)
    features = [Feature(f"x{i}") for i in range(n_features)]
    sets = {}
    for name, source, count in (("train", "train", n_train), ("validation", "train", n_train // 2), ("test", "test", n_train)):
        labels = np.arange(count) % n_classes
        lengths = np.append(longest, rng.integers(2, longest + 1, count - 1))
        series = []
        for label, length in zip(labels, lengths, strict=True):
            values = rng.standard_normal((length, n_features))
            values[:, :n_real] += label - (n_classes - 1) / 2
            series.append(values)
        sets[name] = SeriesSet.from_list(series, labels, features, source, seed=seed)
    real = np.zeros((longest, n_features), dtype=bool)
    real[:, :n_real] = True
    classes = tuple(f"class{i}" for i in range(n_classes))
    return Dataset(
        "tiny",
        sets["train"],
        sets["validation"],
        {"test": sets["test"]},
        classes=classes,
        provenance=Provenance(real),
        horizon=longest,
        scaler=Scaler.identity(n_features),
    )


def task_dataset(task: SignalTask, seed: int = 0, n_validation: int = 300) -> Dataset:
    """A signal task as a data set, without scaling; what is in it is what the closed form speaks of."""
    everything = task.make("train", task.n_train + n_validation, seed)
    rows = np.arange(len(everything))
    return Dataset(
        name="task",
        train=everything.take(rows[: task.n_train]),
        validation=everything.take(rows[task.n_train :]),
        tests={"test": task.make("test", task.n_test, seed)},
        classes=("0", "1"),
        provenance=Provenance(task.real),
        horizon=task.steps,
        scaler=Scaler.identity(task.n_features),
    )


def tiny_spec(**changes: object) -> RunSpec:
    """A spec whose run takes a moment, by the paper's epochs; ``changes`` as in :meth:`RunSpec.change`."""
    small = {
        "budget__per_step": 2,
        "acquirer__hidden": 6,
        "acquirer__time_features": 2,
        "acquirer__trees": 10,
        "acquirer__segments": 3,
        "predictor__width": 6,
        "predictor__layers": 2,
        "predictor__time_features": 2,
        "training__epochs": 3,
        "training__batch_size": 16,
    }
    return RunSpec().change(**(small | changes))


def recipe_spec(**changes: object) -> RunSpec:
    """The same, trained by the recipe with very few steps."""
    return tiny_spec(**({"training__epochs": None, "training__effort": 0.01} | changes))


def features_of(count: int) -> list[Feature]:
    return [Feature(f"x{i}") for i in range(count)]


def tiny_batch(
    lengths: tuple[int, ...] = (7, 3, 5, 7, 2), n_features: int = 5, seed: int = 0, steps: int | None = None
) -> Batch:
    """Random series of the given lengths, fully observed, padded to ``steps``."""
    generator = torch.Generator().manual_seed(seed)
    length = torch.tensor(lengths)
    steps = steps or max(lengths)
    values = torch.randn(len(lengths), steps, n_features, generator=generator)
    observed = (torch.arange(steps) < length.unsqueeze(1)).unsqueeze(-1).expand_as(values).contiguous()
    keys = torch.arange(len(lengths)) * 7919 + 13
    return Batch(values * observed, observed, length, keys)


def tiny_policy(
    acquirer: str = "learned",
    predictor: str = "conv",
    budget: float = 2,
    n_features: int = 5,
    n_classes: int = 3,
    horizon: int = 7,
    seed: int = 0,
    menu: Menu | None = None,
    gated: bool = True,
    **reads: object,
) -> Policy:
    """A policy with random weights, large enough to make requests and predictions differ between series and steps.

    ``gated``: whether what learns scores in log worth; else in logits, as in the paper. ``reads``: further fields of the
    acquirer's spec.
    """
    menu = menu or Menu.one_per_feature(features_of(n_features))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        predicts = make_predictor(
            PredictorSpec(kind=predictor, width=8, layers=2, head=4, dropout=0.0, time_features=2),
            n_features,
            n_classes,
            horizon,
        )
        spec = AcquirerSpec(kind=acquirer, hidden=16, time_features=3, segments=3, **reads)
        chooses = make_acquirer(acquirer, spec, menu, horizon, horizon, predicts.context_size, seed, gated)
        with torch.no_grad():
            for parameter in chooses.parameters():
                parameter.copy_(torch.randn_like(parameter))
    if acquirer.startswith("static"):
        chooses.fit(np.random.default_rng(seed).random((horizon, n_features)), menu)
    if acquirer == "round-robin":
        chooses.fit(torch.from_numpy(np.random.default_rng(seed).random(len(menu.orders))))
    if acquirer == "oracle":
        real = np.random.default_rng(seed).random((horizon, n_features)) < 0.6
        chooses.tell(Provenance(real), menu.reveals)
    amount: Budget = Unlimited() if acquirer == "complete" else PerStep(budget)
    return Policy(menu, amount, chooses, predicts)


def padded_parts(record: Rollout) -> dict[str, object]:
    """All of a record that has a place in ``[B, T, …]``."""
    names = ("reveals", "scores", "selections", "logits", "valid", "cost")
    return {name: getattr(record, name) for name in names}
