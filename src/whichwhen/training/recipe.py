"""The recipe: warm-up, joint phase, settling; one for all data, in optimiser steps.

1. *Warm-up*: the predictor learns on random requests of all sizes.
2. *Joint*: acquirer and predictor learn together. Each series draws a price, half of them a cap, and pays its bill; a quarter
   of the series ask at random and pay none.
3. *Settling*: the acquirer is frozen, its requests are computed once for a range of budgets, and the predictor learns on them,
   half of the time at the budget asked for.

Where series are few, all of this is done twice, the second time with noise on the values of training, and validation chooses.
Then comes a last phase:

4. *Refit*: the predictor is trained anew, warm-up included, on training and validation series together and on the requests of
   the acquirer as it is.

``thorough`` makes three attempts, with other weights and at last with another architecture.

Fixed rules skip the joint phase and settle on their own requests for as many steps. For ``learned`` the best fixed rule, found
with the warmed-up predictor, is settled too, and the one with the lower validation loss is kept.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from whichwhen import keyed
from whichwhen.acquirers import RoundRobinAcquirer, WithOwnPredictor
from whichwhen.afterwards import read_requests, walk_then_read
from whichwhen.allocator import keep_freed_memory
from whichwhen.budget import Budget, MeanCost, PerStep, Price, RandomPrice, Unlimited, caps_up_to, default_per_step
from whichwhen.data.store import Dataset, SeriesSet
from whichwhen.errors import TrainingError
from whichwhen.evaluation import Evaluation, evaluate
from whichwhen.evaluation.calibration import fit_temperature
from whichwhen.evaluation.choice import FEW as FEW_TO_CHOOSE
from whichwhen.evaluation.measures import labelled_rows
from whichwhen.evaluation.prices import knows_prices, with_budget
from whichwhen.model import Card, Model, blank_model, fit_inputs, fit_rule, importance_of, make_budget
from whichwhen.noise import NoisePool
from whichwhen.rollout import Policy
from whichwhen.selection import Gate
from whichwhen.specs import RULES, AcquirerKind, TrainingSpec
from whichwhen.training.augment import augmented, spread_of
from whichwhen.training.checkpoints import TrainState, load_optimizer_tensors, optimizer_tensors
from whichwhen.training.class_weights import class_weights
from whichwhen.training.detached import replay, roll_out_branching, roll_out_detached, walk
from whichwhen.training.objectives import EndToEnd, make_objective
from whichwhen.training.requests import Requests, collect, losses_on, mixture, random_requests
from whichwhen.training.trained import Candidate, Trained
from whichwhen.types import Episode, Hindsight, Rows

WARM_UP, JOINT, SETTLE = 900, 1500, 2400
"""Optimiser steps of the phases, for up to ``MANY`` series."""
MANY = 3000
"""Training series from which on the steps grow, with the square root of their number."""
FEW = 1000
"""Training series below which a second attempt has noise on the values, and the predictor is at last refitted."""
NOISY = 1
"""Which attempt has noise on the values, where series are few."""
LEAN = 0.02
"""Nats: an attempt without noise must be better by so much: what it learned by heart shows little on series that are alike."""
ACQUIRER_RATE = 0.3
"""The acquirer's learning rate, as a multiple of the predictor's."""
TABLE_RATE = 1.0
"""The same for the acquirer ``table``, whose log worths have a gradient at their own step only; they are not clipped."""
EXPLORE = 0.25
"""Share of the series that ask at random in the joint phase."""
LARGEST_SHARE = 0.5
"""Of the orders, what those series ask for at most."""
CHEAPEST, DEAREST = 3e-5, 1.0
"""The range of prices, in units of the price at which one order per step costs all there is to gain."""
LEAST_GAIN = 0.1
"""Nats: what there is to gain counts as at least this much."""
CAPPED = 0.5
"""Share of the series with a cap in the joint phase."""
TYPICAL_CAPS = (1, 2, 3, 5, 8)
"""Caps that settling includes, in typical orders."""
SETTLE_PRICES = 5
"""Prices that settling includes."""
ASKED = 0.5
"""Share of settling at the budget asked for."""
CLIP, WEIGHT_DECAY = 1.0, 0.1
RANDOM_SETS = 8
"""Draws of random requests that a random acquirer's predictor learns on."""
ROUND = 200
"""Optimiser steps between two lines of the history and two checkpoints."""
TURNS = (1, 1.5, 2, 3, 4, 5, 8, 12)
"""Sizes of round robins that are tried, as multiples of what the budget buys."""
LAST_ROUNDS = 4
"""Of a phase: with few validation series the choice between network and rule takes the mean over these."""
AHEAD, AHEAD_CELLS = 4, 1 << 22
"""Batches that the acquirer walks through at once in the joint phase, and values of theirs at most."""
_SMALLEST = 1e-30
"""Of a probability whose logarithm is taken."""
WINDOWS = 32
"""Batches' worth of noise that are drawn at a time."""


@dataclass(frozen=True)
class Phase:
    """A stretch of training: ``steps`` optimiser steps, of which the first is number ``start`` of all."""

    name: str
    start: int
    steps: int
    attempt: int = 0

    @property
    def refits(self) -> bool:
        """Whether a predictor is trained anew on all series."""
        return self.name in ("refit", "rule refit")

    @property
    def stream(self) -> str:
        """Where its randomness comes from: a rule settles beside the network just as it does alone."""
        name = {"rule": "settle", "rule refit": "refit"}.get(self.name, self.name)
        return f"{name}/{self.attempt}" if self.attempt else name


def fit_recipe(
    model: Model,
    data: Dataset,
    *,
    state: TrainState | None = None,
    device: torch.device | str = "cpu",
    on_epoch: Callable[[TrainState], None] = lambda state: None,
) -> Trained:
    """Train a model by the recipe. The test split is not touched.

    The randomness of each round of steps is drawn from (seed, phase, round): with the ``state`` of an earlier sitting, training
    goes on to the same weights as without the break.

    Args:
        model: untrained; its card's spec says what to train for.
        data: the training split to learn from, the validation split to choose by.
        state: where an earlier sitting stopped.
        device: where to compute.
        on_epoch: called after each round, for checkpoints and progress.
    """
    keep_freed_memory()
    return _Recipe(model, data, state or TrainState(), device, on_epoch).run()


def steps_of(training: TrainingSpec, n_series: int) -> tuple[int, int, int]:
    """Optimiser steps of warm-up, joint phase and settling, for so many training series."""
    factor = training.steps_factor * math.sqrt(max(1.0, n_series / MANY))
    warm, joint, settle = (max(1, round(steps * factor)) for steps in (WARM_UP, JOINT, SETTLE))
    return warm, joint, settle


def attempts_of(training: TrainingSpec, n_series: int) -> int:
    """How many times the first three phases are gone through: at least once more where series are few."""
    return max(NOISY + 1, training.attempts) if n_series < FEW else training.attempts


def phases_of(model: Model, n_series: int) -> tuple[Phase, ...]:
    """The phases of a model's acquirer, for so many training series."""
    warm, joint, settle = steps_of(model.card.spec.training, n_series)
    phases = [Phase("warm-up", 0, warm)]
    if model.policy.acquirer.learns:
        phases += [Phase("joint", warm, joint), Phase("settle", warm + joint, settle)]
        if model.card.spec.acquirer.kind == "learned":
            phases.append(Phase("rule", warm, joint + settle))
    else:
        phases.append(Phase("settle", warm, joint + settle))
    attempts = attempts_of(model.card.spec.training, n_series)
    found = [replace(phase, attempt=i) for i in range(attempts) for phase in phases]
    if n_series < FEW and not _reads_predictor(model):
        kinds = ("refit", "rule refit") if model.card.spec.acquirer.kind == "learned" else ("refit",)
        found += [Phase(kind, 0, warm + joint + settle, attempts - 1) for kind in kinds]
    return tuple(found)


def _reads_predictor(model: Model) -> bool:
    """Whether the acquirer decides by what the policy's own predictor holds, which then must stay as it is."""
    acquirer = model.policy.acquirer
    return acquirer.reads_context and not isinstance(acquirer, WithOwnPredictor)


Finished = tuple[Model, float]
"""A trained model and its validation loss."""


class _Recipe:
    """Where a run of the recipe stands."""

    def __init__(
        self,
        model: Model,
        data: Dataset,
        state: TrainState,
        device: torch.device | str,
        on_epoch: Callable[[TrainState], None],
    ) -> None:
        self.model, self.data, self.state, self.device, self.on_epoch = model, data, state, device, on_epoch
        self.spec = model.card.spec
        self.few = len(data.train) < FEW
        self.spread = spread_of(data.train) if self.few else None
        self.phases = phases_of(model, len(data.train))
        self.total = max(phase.start + phase.steps for phase in self.phases)
        self.began = time.process_time() - state.cpu_seconds
        self.facts = state.facts
        state.rounds = sum(math.ceil(phase.steps / ROUND) for phase in self.phases)
        balanced = self.spec.training.class_weight == "balanced"
        self.balance = class_weights(data.train, len(data.classes)).to(device) if balanced else None
        costs = np.array([order.cost for order in model.policy.menu.orders if order.cost > 0])
        self.typical, self.everything = float(np.median(costs)) if len(costs) else 1.0, float(costs.sum())
        self._adopt(model)

    def _adopt(self, model: Model) -> None:
        """Begin an attempt."""
        for module in model.modules().values():
            module.to(self.device)
        self.model = model
        self.rule: Model | None = None
        self.refitted: Model | None = None
        self.series = self.data.train
        self.noisy = self.few and model.card.attempt == NOISY
        self.optimizer = self._optimizer(model)

    # ---- the course of it ---------------------------------------------------------------------------------------------------
    def run(self) -> Trained:
        """All phases, from where an earlier sitting stopped."""
        if self.state.history:
            self._restore()
        for i, phase in enumerate(self.phases):
            if i < self.facts.get("phase", 0):
                continue
            done = self.facts.get("rounds", 0) if i == self.facts.get("phase", 0) else 0
            self._begin(phase, done)
            for number in range(done, math.ceil(phase.steps / ROUND)):
                self._round(phase, i, number)
        return self._choose()

    def _begin(self, phase: Phase, done: int) -> None:
        """What has to be there before a phase goes on."""
        if phase.attempt != self.model.card.attempt:
            self._start_attempt(phase.attempt)
        if phase.name == "joint" and not done:
            self._start_joint()
        if phase.name == "settle":
            self._start_settling(done)
        if phase.name == "rule":
            self._start_rule(done)
        if phase.refits:
            self._start_refit(phase.name, done)

    def _start_joint(self) -> None:
        """After the warm-up: the range of prices, the best fixed rule, where the acquirer starts."""
        self.facts["prices"] = low, high = self._price_range()
        if self.spec.acquirer.kind == "learned":
            self._keep("warm", self._predictor().state_dict())
            self._keep("warm-optimizer", optimizer_tensors(self.optimizer))
            self._screen_rules()
        acquirer: Any = self.model.policy.acquirer
        if acquirer.unit == "log-worth":
            acquirer.start_at((math.log(low) + math.log(high)) / 2 + math.log(self.typical))

    def _start_settling(self, done: int) -> None:
        """The acquirer is frozen; its requests are computed once."""
        if self.spec.acquirer.kind == "round-robin" and not done:
            self._choose_turns(self.model)
        self.model = model = self._at_budget(self.model)
        model.policy.acquirer.requires_grad_(False)
        self.optimizer = self._optimizer(model, self.optimizer)
        self.sets, self.shown = self._request_sets(model)

    def _start_rule(self, done: int) -> None:
        """The best fixed rule settles from where the warm-up ended."""
        self.rule = self._make_rule(self.facts["rule"])
        if not done:
            self._keep("network", self._predictor().state_dict())
        else:
            self.rule.policy.predictor.load_state_dict(self._predictor().state_dict())
        self.optimizer = self._optimizer(self.rule)
        load_optimizer_tensors(self.optimizer, self.state.optimizer if done else _named(self.state.extra, "warm-optimizer"))
        self.sets, self.shown = self._request_sets(self.rule)

    def _start_refit(self, name: str, done: int) -> None:
        """All is chosen: a fresh predictor learns from all series, on the requests of the acquirer that it will serve."""
        if "chosen" not in self.facts:
            self._put_away()
            self.facts["chosen"] = True
        network, rule = self._best_of_all()
        found, _ = rule if rule is not None and name == "rule refit" else network
        self.refitted = self._with_fresh_predictor(found)
        self.refitted.policy.acquirer.requires_grad_(False)
        self.optimizer = self._optimizer(self.refitted)
        if done:
            self.refitted.policy.predictor.load_state_dict(_named(self.state.extra, name))
            load_optimizer_tensors(self.optimizer, self.state.optimizer)
        self.series, self.noisy = self.data.train.joined(self.data.validation), found.card.attempt == NOISY
        self.sets, self.shown = self._request_sets(self.refitted)

    def _restore(self) -> None:
        """From a checkpoint."""
        phase = self.phases[self.facts["phase"]]
        if phase.attempt:
            self._adopt(self._blank_attempt(phase.attempt))
        self.model.load_tensors(self.state.weights)
        if phase.name in ("settle", "rule") and self.model.policy.acquirer.learns:
            self.model = self._at_budget(self.model)
            self.model.policy.acquirer.requires_grad_(False)
            self.optimizer = self._optimizer(self.model)
        if phase.name != "rule" and not phase.refits:
            load_optimizer_tensors(self.optimizer, self.state.optimizer)

    def _round(self, phase: Phase, index: int, number: int) -> None:
        """So many steps, a look at validation, a checkpoint."""
        first = number * ROUND
        steps = range(first, min(first + ROUND, phase.steps))
        learner = self.refitted if phase.refits else self.rule if phase.name == "rule" else self.model
        assert learner is not None
        for module in learner.modules().values():
            module.train()
        place = (self.spec.seed, phase.stream, number)
        self.noise = NoisePool(keyed.stream_seed(*place, "noise"), self._windows)
        self.rng = np.random.default_rng(keyed.stream_seed(*place, "rows"))
        totals = np.zeros(3)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(keyed.stream_seed(*place, "dropout"))
            for number_of_step, (loss, record, known) in zip(steps, self._losses(phase, learner, steps), strict=True):
                self._descend(learner, loss, phase.start + number_of_step)
                totals += self._tally(loss, record, known)
        means = totals / len(steps)
        self._record(phase, index, number, steps.stop, means, learner)

    def _descend(self, learner: Model, loss: Tensor, at: int) -> None:
        """One optimiser step under one cosine over all phases."""
        value = float(loss.detach())
        if not math.isfinite(value):
            raise TrainingError(f"the loss became {value} at step {at}", do="lower --learning-rate")
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_([p for group in self.optimizer.param_groups if group["clip"] for p in group["params"]], CLIP)
        rate = self.spec.training.learning_rate * 0.5 * (1 + math.cos(math.pi * at / self.total))
        for group in self.optimizer.param_groups:
            group["lr"] = rate * group["share"]
        self.optimizer.step()

    def _record(self, phase: Phase, index: int, number: int, step: int, means: np.ndarray, learner: Model) -> None:
        """A line of the history, and the state to go on from."""
        found = None if phase.refits else self._validate(phase, learner)
        scores = None if found is None else found.metrics
        if scores is not None and not math.isfinite(scores.loss):
            raise TrainingError(f"the validation loss became {scores.loss}", do="lower --learning-rate")
        state = self.state
        state.cpu_seconds = time.process_time() - self.began
        state.history.append(
            {
                "epoch": len(state.history) + 1,
                "phase": phase.name,
                "step": step,
                "objective": float(means[0]),
                "loss": float(means[1]),
                "accuracy": float(means[2]),
                "validation_loss": None if scores is None else scores.loss,
                "validation_accuracy": None if scores is None else scores.accuracy,
                "validation_auroc": None if scores is None else scores.auroc,
                "unsure_loss": _unsure_loss(found, self.data.validation) if found is not None and self._few_to_choose else None,
                "learning_rate": self.optimizer.param_groups[0]["lr"],
                "best": True,
                "cpu_seconds": round(state.cpu_seconds, 3),
            }
        )
        self.facts |= {"phase": index, "rounds": number + 1, "attempt": phase.attempt}
        tensors = dict(self.model.tensors())
        if phase.name == "rule":
            tensors |= {f"predictor.{name}": tensor for name, tensor in learner.policy.predictor.state_dict().items()}
        if phase.refits:
            self._keep(phase.name, learner.policy.predictor.state_dict())
        state.weights = state.best = _copy(tensors)
        state.best_epoch = len(state.history)
        state.optimizer = _copy(optimizer_tensors(self.optimizer))
        self.on_epoch(state)

    # ---- steps --------------------------------------------------------------------------------------------------------------
    def _losses(self, phase: Phase, learner: Model, steps: range) -> Iterator[tuple[Tensor, Rows, Hindsight]]:
        """The loss of each step, worked out when it is asked for: by then the step before has been taken."""
        batches = self._batches(phase, steps)
        if phase.name == "joint":
            yield from self._joint_losses(learner, batches)
            return
        warm = self.phases[0].steps
        for step, (rows, salt) in zip(steps, batches, strict=True):
            known = self._known(rows, salt)
            if phase.name == "warm-up" or (phase.refits and step < warm):
                requests = random_requests(len(rows), known.batch.steps, self._orders, self.noise)
            else:
                requests = mixture(self.sets, self.shown, self.rng, rows)
            yield self._read(learner, known, requests)

    def _read(self, learner: Model, known: Hindsight, requests: Tensor) -> tuple[Tensor, Rows, Hindsight]:
        """The prediction loss on given requests; what must be asked is."""
        rules = learner.policy.rules.to(known.batch.values.device)
        record = read_requests(learner.policy.predictor, rules, known.batch, rules.with_mandatory(requests.to(self.device)))
        return EndToEnd(self.spec.training.step_loss).loss(record, known), record, known

    def _joint_losses(
        self, learner: Model, batches: Iterator[tuple[np.ndarray, int]]
    ) -> Iterator[tuple[Tensor, Rows, Hindsight]]:
        """The acquirer walks through several batches at once, ahead of the steps that learn from them."""
        acquirer: Any = learner.policy.acquirer
        policy = replace(learner.policy, budget=self._training_budget(), selector=Gate())
        objective = make_objective(self.spec, policy, priced=True)
        one_by_one = roll_out_branching if objective.branches else roll_out_detached if acquirer.remembers else None
        while block := list(islice(batches, 1 if one_by_one else self._ahead)):
            if isinstance(acquirer, WithOwnPredictor):
                acquirer.follow(learner.policy.predictor)
            parts = [self._explorers(rows, salt) for rows, salt in block]
            walked = None if one_by_one else walk(policy, [known.batch for known, _ in parts], self.noise)
            for number, (known, others) in enumerate(parts):
                record: Episode
                if one_by_one is not None:
                    record = one_by_one(policy, known.batch, self.noise)
                else:
                    assert walked is not None
                    record = replay(policy, walked, number, known.batch)
                loss = objective.loss(record, known)
                if others is not None:
                    share = len(others.labels) / (len(others.labels) + len(known.labels))
                    requests = random_requests(len(others.labels), others.batch.steps, self._orders, self.noise, LARGEST_SHARE)
                    loss = (1 - share) * loss + share * self._read(learner, others, requests)[0]
                yield loss, record, known

    def _explorers(self, rows: np.ndarray, salt: int) -> tuple[Hindsight, Hindsight | None]:
        """The series of a batch that the acquirer decides for, and those that ask at random."""
        explores = self.rng.random(len(rows)) < EXPLORE
        if explores.all():
            explores[0] = False
        return self._known(rows[~explores], salt), self._known(rows[explores], salt) if explores.any() else None

    @property
    def _ahead(self) -> int:
        """How many batches the acquirer walks through at once: fewer where series are long or wide."""
        cells = min(self.spec.training.batch_size, len(self.data.train)) * self.data.horizon
        return max(1, min(AHEAD, AHEAD_CELLS // (cells * max(self._orders, len(self.data.features)))))

    def _known(self, rows: np.ndarray, salt: int) -> Hindsight:
        known = replace(self.series.hindsight(rows, self.device, salt=salt), class_weights=self.balance)
        return known if self.spread is None or not self.noisy else augmented(known, self.spread, self.noise)

    def _batches(self, phase: Phase, steps: range) -> Iterator[tuple[np.ndarray, int]]:
        """Rows of each batch, longest series first, and the number of the pass over the data."""
        count = len(self.series)
        size = min(self.spec.training.batch_size, count)
        per_pass = count // size
        order, known = np.arange(0), -1
        for step in steps:
            number = step // per_pass
            if number != known:
                seed = keyed.stream_seed(self.spec.seed, "shuffle", phase.stream, number)
                order, known = np.random.default_rng(seed).permutation(count), number
            rows = order[(step % per_pass) * size :][:size]
            yield rows[np.argsort(-self.series.lengths[rows], kind="stable")], phase.start + number

    def _tally(self, loss: Tensor, record: Rows, known: Hindsight) -> np.ndarray:
        with torch.no_grad():
            final = record.final_logits
            right = (final.argmax(-1) == known.labels).float().mean()
            return np.array([float(loss), float(F.cross_entropy(final, known.labels)), float(right)])

    # ---- budgets and prices -------------------------------------------------------------------------------------------------
    def _price_range(self) -> tuple[float, float]:
        """The prices of training, from what the warmed-up predictor gains from everything on validation."""
        policy = replace(self.model.policy, budget=Unlimited())
        losses = [self._validation_loss(replace(policy, acquirer=self._fixed(kind))) for kind in ("none", "complete")]
        gain = max(LEAST_GAIN, losses[0] - losses[1])
        mean_order = self.everything / max(1, sum(order.cost > 0 for order in self.model.policy.menu.orders))
        unit = gain / float(self.data.train.lengths.mean()) / mean_order
        return CHEAPEST * unit, DEAREST * unit

    def _training_budget(self) -> Budget:
        low, high = self.facts["prices"]
        asked = self.spec.budget.per_step or 0.0
        caps = caps_up_to(max(8 * self.typical, 2 * asked), self.model.policy.menu)
        return RandomPrice(low, high, caps, self.model.policy.menu, CAPPED, self.spec.seed)

    def _at_budget(self, model: Model) -> Model:
        """The same model at the budget asked for, with the prices of training on its card where it knows prices.

        What has to be found for that on validation is found once, when settling begins: after a break the predictor is another
        one.
        """
        priced = knows_prices(model.card, model.policy)
        card = model.card.model_copy(update={"prices": tuple(self.facts["prices"])}) if priced else model.card
        policy = model.policy
        if "found" not in self.facts:
            policy = with_budget(Model(card, policy), policy, self.spec.budget, self.data.validation, self.device)
            of_rule = _rate(policy) if self.spec.budget.kind == "price" else None
            self.facts["found"] = getattr(policy.budget, "price", None) if priced else of_rule
        card = card.model_copy(update={"price": self.facts["found"]})
        return Model(card, replace(policy, budget=make_budget(card, policy.menu, priced)))

    def _request_sets(self, model: Model) -> tuple[list[Requests], float]:
        """Requests of the training series at the budget asked for and at others, and the share of the first."""
        policy, train = model.policy, self.series
        asked = collect(policy, train, self.device)
        kind = model.card.acquirer
        if kind == "random":
            more = [collect(policy, train, self.device, salt=salt) for salt in range(1, RANDOM_SETS)]
            return [asked, *more], 0.0
        if not knows_prices(model.card, policy):  # a rule that is kept serves its own budget; at others the network does
            return [asked], 1.0
        caps = sorted({min(cap * self.typical, self.everything) for cap in TYPICAL_CAPS})
        caps = [cap for cap in caps if self._payable(cap)]
        low, high = model.card.prices or (1.0, 1.0)
        budgets: list[Budget] = [Price(low, cap) for cap in caps]
        budgets += [Price(float(price)) for price in np.geomspace(low, high, SETTLE_PRICES)]
        others = [replace(policy, budget=budget) for budget in budgets]
        return [asked, *(collect(other, train, self.device) for other in others)], ASKED

    def _payable(self, amount: float, mean: bool = False) -> bool:
        """Whether a cap, or a mean cost, makes sense for the menu."""
        mandatory = sum(order.cost for order in self.model.policy.menu.orders if order.mandatory)
        return amount <= self.everything and (mean or amount >= mandatory)

    # ---- rules --------------------------------------------------------------------------------------------------------------
    def _fixed(self, kind: AcquirerKind) -> Any:
        return self._blank(kind).policy.acquirer.to(self.device)

    def _blank(self, kind: AcquirerKind) -> Model:
        model = blank_model(self.model.card.model_copy(update={"kept": kind, "prices": None, "price": None}))
        for module in model.modules().values():
            module.to(self.device)
        return model

    def _screen_rules(self) -> None:
        """The fixed rule with the lowest validation loss under the warmed-up predictor, and a round robin for each budget."""
        importance = importance_of(self.model, self.data)
        self.state.extra["importance"] = torch.from_numpy(importance)
        losses: dict[AcquirerKind, float] = {}
        turns: dict[int, float] = {}
        for kind in RULES:
            rule = self._blank(kind)
            fit_rule(rule, self.data, importance)
            if kind == "round-robin":
                turns = self._choose_turns(rule)
                losses[kind] = min(turns.values())
            else:
                losses[kind] = self._validation_loss(self._asked(rule, rule.policy))
        best = min(RULES, key=lambda kind: losses[kind])
        self.facts |= {"rule": best, "screened": losses | {f"round robin of {n}": loss for n, loss in turns.items()}}

    def _choose_turns(self, rule: Model) -> dict[int, float]:
        """Choose n for the budget asked for and for others with the warmed-up predictor; the losses of the former, by n."""
        acquirer, n_orders = rule.policy.acquirer, self._orders
        assert isinstance(acquirer, RoundRobinAcquirer)
        asked = self._amount_asked()
        sizes: dict[float, int] = {}
        losses: dict[int, float] = {}
        for amount in dict.fromkeys((asked, *(cap * self.typical for cap in TYPICAL_CAPS))):
            if amount != asked and not self._payable(amount):
                continue
            buys = max(1, int(amount / self.typical + 1e-6))
            found: dict[int, float] = {}
            for size in sorted({min(round(buys * turn), n_orders) for turn in TURNS}):
                acquirer.choose({amount: size})
                policy = rule.policy if amount == asked else _rule_at(rule.policy, amount, PerStep(amount))
                found[size] = self._validation_loss(self._asked(rule, policy) if amount == asked else self._warmed(policy))
            sizes[amount] = min(found, key=lambda size: found[size])
            losses = losses or found
        acquirer.choose(sizes)
        self.facts["turns"] = [[amount, size] for amount, size in sizes.items()]
        return losses

    def _warmed(self, policy: Policy) -> Policy:
        return replace(policy, predictor=self.model.policy.predictor)

    def _asked(self, model: Model, policy: Policy) -> Policy:
        """A fixed rule at the budget asked for, with the warmed-up predictor."""
        return with_budget(model, self._warmed(policy), self.spec.budget, self.data.validation, self.device)

    def _make_rule(self, kind: AcquirerKind) -> Model:
        """A fixed rule, ranked and at the budget asked for, with the warmed-up predictor for its own."""
        rule = self._blank(kind)
        rule.policy.predictor.load_state_dict(_named(self.state.extra, "warm"))
        fit_rule(rule, self.data, self.state.extra["importance"].numpy())
        acquirer = rule.policy.acquirer
        if isinstance(acquirer, RoundRobinAcquirer):
            acquirer.choose({float(amount): int(size) for amount, size in self.facts["turns"]})
        policy = with_budget(rule, rule.policy, self.spec.budget, self.data.validation, self.device)
        return Model(rule.card.model_copy(update={"price": _rate(policy)}), policy)

    def _amount_asked(self) -> float:
        """The budget asked for as an amount per step."""
        own, menu = self.spec.budget, self.model.policy.menu
        if own.mean_cost is not None:
            return own.mean_cost
        if own.total is not None:
            return own.total / self.data.horizon
        return default_per_step(menu) if own.per_step is None else own.per_step

    def _validation_losses(self, policy: Policy) -> np.ndarray:
        """Of each validation series, with the bill where there is a price."""
        validation = self.data.validation
        losses, costs = losses_on(policy, validation, collect(policy, validation, self.device), self.device)
        return losses + self._charge() * costs

    def _validation_loss(self, policy: Policy) -> float:
        return float(self._validation_losses(policy).mean())

    def _charge(self) -> float:
        """What a unit of cost is charged at in comparisons: the price, or that which gives the mean cost; 0 under a cap."""
        own = self.spec.budget
        found = self.model.card.price if own.mean_cost is not None else own.price
        return found or 0.0

    # ---- choice -------------------------------------------------------------------------------------------------------------
    def _choose(self) -> Trained:
        """The best network or the best rule of all attempts, by their validation losses at the budget asked for."""
        network, rule = self._best_of_all()
        if rule is None:
            return Trained(self._refit(network[0], "refit"), self.state)
        kept = network if network[1] < rule[1] else rule
        both = {"refit": network, "rule refit": rule}
        candidates = tuple(Candidate(self._refit(one[0], name), one[1], one is kept) for name, one in both.items())
        model = next(candidate.model for candidate in candidates if candidate.kept)
        return Trained(model, self.state, candidates, dict(self.facts["screened"]))

    def _best_of_all(self) -> tuple[Finished, Finished | None]:
        """The best network, or the best of the one kind there is, and the best rule beside it."""
        finished = self._finished_before() if "chosen" in self.facts else [*self._finished_before(), *self._finished()]
        if self.spec.acquirer.kind != "learned":
            return self._best(finished), None
        rules = [one for one in finished if one[0].card.acquirer in RULES]
        return self._best([one for one in finished if one not in rules]), self._best(rules)

    def _best(self, finished: Sequence[Finished]) -> Finished:
        return min(finished, key=lambda one: one[1] + LEAN * (self.few and one[0].card.attempt != NOISY))

    def _refit(self, model: Model, name: str) -> Model:
        """With the predictor that was trained on all series, if one was."""
        weights = _named(self.state.extra, name)
        if not weights:
            return model
        refitted = self._with_fresh_predictor(model)
        refitted.policy.predictor.load_state_dict(weights)
        return refitted

    def _with_fresh_predictor(self, model: Model) -> Model:
        """The same with an untrained predictor; its own goes on to serve what is chosen on validation."""
        card = model.card.model_copy(update={"refitted": True})
        fresh = blank_model(card)
        fit_inputs(fresh, self.data)
        return Model(card, replace(model.policy, predictor=fresh.policy.predictor.to(self.device)), model.policy.predictor)

    def _finished(self) -> list[Finished]:
        """What this attempt ends with: a model, or a network and a rule."""
        models = {"settle": self.model}
        if self.rule is not None:
            network = self.model
            network.policy.predictor.load_state_dict(_named(self.state.extra, "network"))
            card = network.card.model_copy(update={"kept": "learned-only"})
            models = {"settle": Model(card, network.policy), "rule": self.rule}
        for model in models.values():
            for module in model.modules().values():
                module.eval()
        return [(model, self._loss_for_choice(model, phase)) for phase, model in models.items()]

    def _start_attempt(self, attempt: int) -> None:
        """Put away what the attempt before ended with, and begin anew."""
        self._put_away()
        self.facts = self.state.facts = {"finished": self.facts["finished"]}
        self.state.extra = {name: tensor for name, tensor in self.state.extra.items() if name.startswith("finished")}
        self._adopt(self._blank_attempt(attempt))

    def _put_away(self) -> None:
        """Keep what an attempt ended with."""
        finished = self._finished()
        done = [*self.facts.get("finished", ()), *([model.card.model_dump(mode="json"), loss] for model, loss in finished)]
        for i, (model, _) in enumerate(finished):
            self._keep(f"finished{len(done) - len(finished) + i}", model.tensors())
        self.facts["finished"] = done

    def _blank_attempt(self, attempt: int) -> Model:
        """An untrained model; a fixed rule's ranking is the same for all attempts."""
        model = blank_model(self.model.card.model_copy(update={"attempt": attempt, "prices": None, "price": None}))
        fit_inputs(model, self.data)
        if not model.policy.acquirer.learns:
            model.policy.acquirer.load_state_dict(self.model.policy.acquirer.state_dict())
        return model

    def _finished_before(self) -> list[Finished]:
        """What earlier attempts ended with."""
        found = []
        for i, (card, loss) in enumerate(self.facts.get("finished", ())):
            model = blank_model(Card.model_validate(card))
            model.load_tensors(_named(self.state.extra, f"finished{i}"))
            for module in model.modules().values():
                module.to(self.device).eval()
            found.append((model, float(loss)))
        return found

    def _loss_for_choice(self, model: Model, phase: str) -> float:
        """On validation at the budget asked for, less what too sure predictions cost; with few series the mean of some rounds.

        How sure a predictor is can be set right afterwards, what it confuses can't. The last weights are one draw of many that
        are as good: their loss on a few dozen series depends on the draw about as much as on the policy.
        """
        scores = evaluate(model.policy, self.data.validation, device=self.device, loop=walk_then_read)
        loss = _unsure_loss(scores, self.data.validation) + self._charge() * scores.metrics.requested_cost
        if not self._few_to_choose:
            return loss
        rounds = [line["unsure_loss"] for line in self.state.history if line["phase"] == phase][-LAST_ROUNDS:]
        return loss + float(np.mean(rounds)) - float(rounds[-1])

    # ---- small things -------------------------------------------------------------------------------------------------------
    @property
    def _few_to_choose(self) -> bool:
        return len(self.data.validation) < FEW_TO_CHOOSE

    @property
    def _orders(self) -> int:
        return len(self.model.policy.menu.orders)

    def _keep(self, group: str, tensors: dict[str, Tensor]) -> None:
        """Copies, for a later phase; they are part of the checkpoint."""
        self.state.extra |= {f"{group}/{name}": tensor for name, tensor in _copy(tensors).items()}

    @property
    def _windows(self) -> int:
        """Size of a pool of noise: enough windows of a batch that two of them rarely overlap."""
        cells = min(self.spec.training.batch_size, len(self.data.train)) * self.data.horizon
        return min(1 << 22, WINDOWS * cells * max(self._orders, len(self.data.features)))

    def _predictor(self) -> nn.Module:
        return self.model.policy.predictor

    def _validate(self, phase: Phase, learner: Model) -> Evaluation:
        """With everything in the warm-up; while the acquirer learns under the cap asked for, or none; then as asked."""
        policy = learner.policy
        if phase.name == "warm-up":
            policy = replace(policy, acquirer=self._fixed("complete"), budget=Unlimited())
        elif phase.name == "joint":
            low, _ = self.facts["prices"]
            cap = self._amount_asked()
            policy = replace(
                policy,
                budget=Price(self.spec.budget.price or low, cap if self._payable(cap) and cap >= self.typical else math.inf),
            )
        return evaluate(policy, self.data.validation, device=self.device, loop=walk_then_read)

    def _optimizer(self, model: Model, before: torch.optim.Optimizer | None = None) -> torch.optim.Optimizer:
        """AdamW; the acquirer at its own rates and without weight decay. The predictor's moments of ``before`` stay."""
        groups = [
            {"params": list(model.policy.predictor.parameters()), "share": 1.0, "weight_decay": WEIGHT_DECAY, "clip": True}
        ]
        named = [(name, p) for name, p in model.policy.acquirer.named_parameters() if p.requires_grad]
        tables = [p for name, p in named if name.endswith("by_time")]
        others = [p for name, p in named if not name.endswith("by_time")]
        if others:
            groups.append({"params": others, "share": ACQUIRER_RATE, "weight_decay": 0.0, "clip": True})
        if tables:
            groups.append({"params": tables, "share": TABLE_RATE, "weight_decay": 0.0, "clip": False})
        optimizer = torch.optim.AdamW(groups, lr=self.spec.training.learning_rate, fused=True)
        if before is not None:
            optimizer.state.update({p: before.state[p] for p in model.policy.predictor.parameters() if p in before.state})
        return optimizer


def _unsure_loss(found: Evaluation, series: SeriesSet) -> float:
    """The loss with the predictions as sure as suits the series best, if that is less sure than they are."""
    shares, labels = labelled_rows(found, series)
    fit = fit_temperature(np.log(np.maximum(shares, _SMALLEST)), labels)
    return fit.loss_after if fit.temperature > 1 else fit.loss_before


def _rate(policy: Policy) -> float | None:
    """The mean cost that a rule saves up at, if it does."""
    return policy.budget.rate if isinstance(policy.budget, MeanCost) else None


def _rule_at(policy: Policy, amount: float, budget: Budget) -> Policy:
    acquirer = policy.acquirer
    return replace(
        policy, budget=budget, acquirer=acquirer.at(amount) if isinstance(acquirer, RoundRobinAcquirer) else acquirer
    )


def _copy(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.detach().clone() for name, tensor in tensors.items()}


def _named(tensors: dict[str, Tensor], group: str) -> dict[str, Tensor]:
    return {name.removeprefix(f"{group}/"): tensor for name, tensor in tensors.items() if name.startswith(f"{group}/")}
