"""What both clinical sets say about patients."""

from __future__ import annotations

import numpy as np


def name_sexes(male: np.ndarray) -> np.ndarray:
    """``[N]`` text from 1 = male, 0 = female, anything else = unknown."""
    return np.select([male == 1, male == 0], ["male", "female"], "unknown")


def name_age_bands(age: np.ndarray) -> np.ndarray:
    """``[N]`` text from years; NaN = unknown."""
    return np.select([age < 45, age < 65, age < 80, age >= 80], ["under 45", "45-64", "65-79", "80 and over"], "unknown")


def drop_implausible(values: np.ndarray, low: np.ndarray, high: np.ndarray) -> int:
    """Put NaN in place of what lies outside ``low`` to ``high``, and say how many values that were."""
    outside = (values < low) | (values > high)
    values[outside] = np.nan
    return int(np.count_nonzero(outside))
