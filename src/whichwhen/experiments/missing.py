"""Do the estimators for partly observed records find the truth? Mask a complete set, where it is known, and see.

``python -m whichwhen.experiments.missing --out results/missing`` writes the record behind docs/missing.md.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from whichwhen.evaluation.answers import answered_until, unanswered_share
from whichwhen.evaluation.complete import estimates_of, step_estimates_of
from whichwhen.evaluation.off_policy import (
    Estimate,
    Limits,
    inverse_propensity_estimate,
    naive_estimate,
    restricted_estimate,
    step_estimate,
)
from whichwhen.evaluation.propensity import AnswerModel, JointAnswerModel, history_features
from whichwhen.experiments.masks import MASKS, Complete, Mask, at_random, by_tube, load_vowels, make_wards
from whichwhen.files import write_text


@dataclass(frozen=True)
class Episode:
    """A policy rolled out: what was requested and answered, ``[N, T, K]`` bool, and the values that came (0 elsewhere)."""

    requested: np.ndarray
    answered: np.ndarray
    revealed: np.ndarray


class SignPolicy:
    """A policy that reacts: which orders come next depends on the sign of the sum of all that was revealed so far.

    Its predictor is a logistic regression per step on the sum and the number of the values of each order, and the free channel.
    """

    def __init__(self, data: Complete, seed: int = 0) -> None:
        rng = np.random.default_rng([seed, 12])
        _, steps, n_orders = data.values[0].shape
        draws = rng.random((steps, 2, n_orders)).argsort(2)[..., : data.per_step]
        self.table = np.zeros((steps, 2, n_orders), dtype=bool)
        np.put_along_axis(self.table, draws, True, 2)
        held, _ = at_random(rng, data.values[0], data.severity[0])
        rows = self._rows(self.roll(data.values[0], held), data.severity[0])
        self.models = [
            make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)).fit(rows[:, t], data.labels[0])
            for t in range(steps)
        ]

    def roll(self, values: np.ndarray, held: np.ndarray) -> Episode:
        """Ask, get what is held, go on."""
        requested, answered = np.zeros(values.shape, dtype=bool), np.zeros(values.shape, dtype=bool)
        revealed = np.zeros(values.shape)
        total = np.zeros(len(values))
        for t in range(values.shape[1]):
            requested[:, t] = self.table[t, (total > 0).astype(int)]
            answered[:, t] = requested[:, t] & held[:, t]
            revealed[:, t] = np.where(answered[:, t], values[:, t], 0.0)
            total += revealed[:, t].sum(1)
        return Episode(requested, answered, revealed)

    def right(self, episode: Episode, severity: np.ndarray, labels: np.ndarray) -> np.ndarray:
        """Whether the prediction after each step is right, ``[N, T]``."""
        rows = self._rows(episode, severity)
        return np.stack([model.predict(rows[:, t]) == labels for t, model in enumerate(self.models)], 1)

    def _rows(self, episode: Episode, severity: np.ndarray) -> np.ndarray:
        seen = [np.cumsum(episode.revealed, 1), np.cumsum(episode.answered, 1), np.cumsum(severity, 1)[..., None]]
        return np.concatenate(seen, 2)


def check_missing(data: Complete, mask_name: str, repeats: int = 20, draws: int = 200, seed: int = 0) -> list[dict[str, Any]]:
    """Rows of dataset, mask, score, requests, estimator: the estimate (mean over ``repeats`` masks) against the truth.

    ``score`` is ``last`` (the prediction after so many requests) or ``every-step`` (mean over all steps). ``error`` is the mean
    estimate minus the truth, ``rmse`` its root mean square over the masks that were not refused.
    """
    policy = SignPolicy(data, seed)
    (_, values), (_, severity), (_, labels) = data.values, data.severity, data.labels
    everything = policy.roll(values, np.ones(values.shape, dtype=bool))
    truth = policy.right(everything, severity, labels)
    found: dict[tuple[str, int, str], list[Estimate]] = {}
    unanswered = []
    for repeat in range(repeats):
        limits = Limits(draws=draws if repeat == 0 else 0)
        for key, estimate, share in _one_mask(policy, data, MASKS[mask_name], np.random.default_rng([seed, repeat]), limits):
            found.setdefault(key, []).append(estimate)
            unanswered.append(share)
    rows = []
    for (score, requests, name), estimates in found.items():
        true = float(truth.mean() if score == "every-step" else truth[:, requests // data.per_step - 1].mean())
        known = np.array([one.value for one in estimates if one.value is not None])
        rows.append(
            {
                "dataset": data.name,
                "mask": mask_name,
                "score": score,
                "requests": requests,
                "estimator": name,
                "estimate": float(known.mean()) if len(known) else None,
                "truth": true,
                "error": float(known.mean() - true) if len(known) else None,
                "rmse": float(np.sqrt(((known - true) ** 2).mean())) if len(known) else None,
                "low_of_first": estimates[0].low,
                "high_of_first": estimates[0].high,
                "effective_sample_size": float(np.mean([one.effective_sample_size for one in estimates])),
                "weight_ratio": _mean([one.weight_ratio for one in estimates]),
                "n_answered": float(np.mean([one.n_answered for one in estimates])),
                "n": estimates[0].n,
                "refused": len(estimates) - len(known),
                "repeats": repeats,
                "unanswered_share": float(np.mean(unanswered)),
            }
        )
    return rows


def _mean(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else None


def _one_mask(
    policy: SignPolicy, data: Complete, mask: Mask, rng: np.random.Generator, limits: Limits
) -> list[tuple[tuple[str, int, str], Estimate, float]]:
    """All estimates under one mask, by (score, requests, estimator)."""
    held, chances = zip(*(mask(rng, v, s) for v, s in zip(data.values, data.severity, strict=True)), strict=True)
    features = [
        history_features(np.where(h, v, np.nan), s[..., None]) for h, v, s in zip(held, data.values, data.severity, strict=True)
    ]
    train, test = (policy.roll(v, h) for v, h in zip(data.values, held, strict=True))
    n, steps, _ = data.values[1].shape
    right = policy.right(test, data.severity[1], data.labels[1])
    until = answered_until(test.requested, test.answered)
    lengths = np.full(len(data.values[0]), steps)
    each = AnswerModel.fit(features[0], held[0], lengths).of_steps(features[1], test.requested)
    joint = JointAnswerModel.fit(features[0], train.requested, train.answered).of_steps(features[1], test.requested)
    asked = np.where(test.requested, chances[1], 1.0)
    known = asked.min(2) if mask is by_tube else asked.prod(2)
    clipped = replace(limits, clip=5.0)
    share = unanswered_share(test.requested, test.answered) or 0.0
    out: list[tuple[tuple[str, int, str], Estimate, float]] = []
    for t in sorted({0, 1, steps // 2 - 1, steps - 1}):
        witness, score, requests = until[:, t], right[:, t], (t + 1) * data.per_step
        estimates = {"naive": naive_estimate(score, n, limits), "restricted": restricted_estimate(score, witness, limits)}
        for name, steps_chance in (("ipw", each), ("ipw-joint", joint), ("ipw-known", known)):
            chance = steps_chance[:, : t + 1].prod(1)
            estimates[name] = inverse_propensity_estimate(score, witness, chance, limits)
            if name == "ipw-joint":
                estimates["ipw-joint-clipped"] = inverse_propensity_estimate(score, witness, chance, clipped)
        out += [(("last", requests, name), one, share) for name, one in estimates.items()]
    every, long, total = right.mean(1), np.full(n, steps), steps * data.per_step
    whole, by_step = (
        estimates_of(every, until[:, -1], joint.prod(1), limits),
        step_estimates_of(right, until, long, joint, limits),
    )
    estimates = {
        "naive": whole["naive"],
        "restricted": whole["restricted"],
        "ipw-joint": whole["ipw"],
        "restricted-by-step": by_step["restricted"],
        "ipw-joint-by-step": by_step["ipw"],
        "ipw-joint-by-step-clipped": step_estimate(right, until, long, joint, clipped),
    }
    return out + [(("every-step", total, name), one, share) for name, one in estimates.items()]


def _rounded(entry: Any) -> Any:
    return round(entry, 5) if isinstance(entry, float) else entry


def main(arguments: list[str] | None = None) -> None:
    """Write ``summary.json``."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("results/missing"))
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--n", type=int, default=4000, help="synthetic series in training and in test")
    parser.add_argument("--no-archive", action="store_true", help="leave out JapaneseVowels")
    args = parser.parse_args(arguments)
    sets = [make_wards(args.n)] + ([] if args.no_archive else [load_vowels()])
    rows = [row for data in sets for name in MASKS for row in check_missing(data, name, args.repeats)]
    args.out.mkdir(parents=True, exist_ok=True)
    lines = (json.dumps({name: _rounded(entry) for name, entry in row.items()}, allow_nan=False) for row in rows)
    write_text(args.out / "summary.json", "[\n" + ",\n".join(lines) + "\n]\n")
    for row in rows:
        value = "refused" if row["estimate"] is None else f"{row['estimate']:.3f} ({row['error']:+.3f})"
        print(
            f"{row['dataset']:16}{row['mask']:10}{row['score']:11}{row['requests']:3}  {row['estimator']:26}{value:16} "
            f"truth {row['truth']:.3f}  size {row['effective_sample_size']:.0f}  refused {row['refused']} of {row['repeats']}"
        )


if __name__ == "__main__":
    main()
