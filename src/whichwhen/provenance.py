"""Which columns are real at which step.

Data sets carry it, metrics and the oracle use it; the loop, selectors, budgets, objectives, predictors and the other acquirers
may not import it, and import-linter holds them to that.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Provenance:
    """Where the real features stand.

    Attributes:
        real: ``[T, F]`` bool, for every step up to the longest series of any split.
    """

    real: np.ndarray

    @classmethod
    def all_real(cls, steps: int, n_features: int) -> Provenance:
        """No fakes."""
        return cls(np.ones((steps, n_features), dtype=bool))

    def of_orders(self, reveals: np.ndarray) -> np.ndarray:
        """``[T, K]`` bool: an order is real where one of the features that it reveals (``reveals``, ``[K, F]``) is."""
        real: np.ndarray = (self.real.astype(float) @ reveals.T.astype(float)) > 0
        return real
