"""From what scikit-learn and aeon call X, y and weights to series and labels, or one line that says what is wrong."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, NoReturn

import numpy as np
from sklearn.utils import check_array
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import assert_all_finite, column_or_1d, validate_data

from whichwhen.data import SeriesSet
from whichwhen.errors import DataError, InputError, ParameterError, SpecError
from whichwhen.menu import Feature

SHAPES = "(series, features, time), (series, time) or a list of arrays (features, time)"
_LARGEST = float(np.finfo(np.float32).max)


@contextmanager
def as_value_errors() -> Iterator[None]:
    """What is wrong with data or settings is a ValueError within, and speaks of parameters instead of flags."""
    try:
        yield
    except (InputError, ParameterError):
        raise
    except SpecError as error:
        raise ParameterError(_without_dashes(error)) from None
    except DataError as error:
        raise InputError(_without_dashes(error)) from None


def read_arrays(X: Any, owner: Any, n_features: int | None) -> list[np.ndarray]:  # noqa: N803 (scikit-learn's name)
    """``[T_i, F]`` float64 for each series, NaN = not measured.

    Args:
        X: one of :data:`SHAPES`; what is 2-D, a data frame of numbers, too, has one feature, as in aeon.
        owner: the estimator; in fit it gets ``n_features_in_``, the second dimension of arrays as scikit-learn counts it.
        n_features: F of the fitted model; None in fit.
    """
    if _is_list_of_series(X):
        arrays = [_read_one(one, i) for i, one in enumerate(X)]
        widths = sorted({len(one) for one in arrays})
        if len(widths) > 1:
            raise InputError(f"series of {widths[0]} and of {widths[-1]} features", expected="the same features in all series")
        flat = False
    else:
        values = check_array(
            X, dtype=np.float64, allow_nd=True, ensure_2d=False, ensure_all_finite=False, estimator=owner, input_name="X"
        )
        if values.ndim not in (2, 3):
            raise InputError(
                f"X with {values.ndim} dimension{'s' * (values.ndim != 1)}", expected=SHAPES, do="Reshape your data"
            )
        if not values.size:
            raise InputError(f"X of shape {values.shape}", expected=SHAPES)
        flat = values.ndim == 2
        arrays = list(values[:, None, :] if flat else values)

    width = len(arrays[0])
    if n_features is None:
        if flat:
            validate_data(owner, X, reset=True, skip_check_array=True)
        else:
            name_features(owner, width)
    elif flat and owner.n_features_in_ != n_features:  # it was fitted on such an array
        validate_data(owner, X, reset=False, skip_check_array=True)
    elif width != n_features:
        _refuse_width(width, n_features, owner, flat)
    for i, one in enumerate(arrays):
        _refuse_extremes(one, i)
    if n_features is None:
        _refuse_short(arrays, flat)
    return [np.ascontiguousarray(one.T) for one in arrays]


def name_features(owner: Any, count: int, names: Sequence[str] | None = None) -> None:
    """What scikit-learn calls the features that an estimator was fitted on."""
    owner.n_features_in_ = count
    if names is not None:
        owner.feature_names_in_ = np.array(names, dtype=object)
    elif hasattr(owner, "feature_names_in_"):
        del owner.feature_names_in_


def read_labels(y: Any, n_series: int, owner: Any) -> tuple[np.ndarray, np.ndarray]:
    """The classes, sorted, and the position of each label in them, ``[N]``."""
    if y is None:
        name = type(owner).__name__
        raise InputError(f"This {name} estimator requires y to be passed, but the target y is None")
    y = column_or_1d(y, warn=True)
    assert_all_finite(y, input_name="y", estimator_name=type(owner).__name__)
    check_classification_targets(y)
    _refuse_lengths("y", len(y), n_series)
    classes, codes = np.unique(y, return_inverse=True)
    return classes, codes.astype(np.int64)


def read_weights(sample_weight: Any, class_weight: Any, y: np.ndarray) -> np.ndarray | None:
    """``[N]`` float64 with mean 1 over what counts at all, from both; None where all count the same."""
    if sample_weight is None and class_weight is None:
        return None
    weights = np.ones(len(y))
    if sample_weight is not None:
        given = check_array(sample_weight, ensure_2d=False, dtype=np.float64, input_name="sample_weight")
        if given.ndim != 1:
            raise InputError(
                f"sample_weight with {given.ndim} dimensions", expected="Sample weights must be 1D array or scalar"
            )
        _refuse_lengths("sample_weight", len(given), len(y))
        if (given < 0).any():
            raise InputError(f"a sample_weight of {given.min():g}", expected="0 or more")
        if not given.any():
            raise InputError("sample_weight is zero for all series", expected="at least one weight above 0")
        weights = given
    if class_weight is not None:
        weights = weights * compute_sample_weight(class_weight, y)
    return weights / weights[weights > 0].mean()


def read_groups(groups: Any, n_series: int) -> np.ndarray | None:
    """``[N]`` numbers of groups."""
    if groups is None:
        return None
    groups = column_or_1d(groups)
    _refuse_lengths("groups", len(groups), n_series)
    return np.unique(groups, return_inverse=True)[1].astype(np.int64)


def make_set(
    series: Sequence[np.ndarray],
    features: Sequence[Feature],
    labels: np.ndarray | None = None,
    groups: np.ndarray | None = None,
    weights: np.ndarray | None = None,
    seed: int = 0,
) -> SeriesSet:
    """Series ``[T_i, F]`` as a set, not scaled yet, in full precision.

    Ids come from what is measured, so that the random requests of a series do not depend on where it stands.
    """
    known = np.zeros(len(series), dtype=np.int64) if labels is None else labels
    found = SeriesSet.from_list(series, known, features, "train", groups, seed)
    ids = [int.from_bytes(hashlib.blake2b(one.tobytes(), digest_size=7).digest()) for one in series]
    return replace(
        found,
        values=np.concatenate(series),
        ids=np.array(ids, dtype=np.int64),
        weights=None if weights is None else weights.astype(np.float32),
    )


def refuse_never_measured(train: SeriesSet) -> None:
    """Raise where nothing is known of a feature."""
    for i, feature in enumerate(train.features):
        if np.isnan(train.values[:, i]).all():
            raise InputError(
                f"feature {feature.name!r} is NaN in all series to learn from",
                expected="at least one value",
                do="leave it out, or use another validation share or random_state",
            )


def refuse_unseen(y: Any, classes: np.ndarray) -> None:
    """Raise where a label is none of the classes."""
    labels = [] if y is None else np.unique(column_or_1d(y)).tolist()
    known = set(classes.tolist())
    if strange := [label for label in labels if label not in known]:
        raise InputError(
            f"label {strange[0]!r} in y, which no series had in fit",
            expected=f"one of {', '.join(repr(label) for label in classes.tolist()[:12])}{', …' * (len(classes) > 12)}",
        )


def plain(content: Any) -> Any:
    """The same settings with numpy's numbers as numbers."""
    if isinstance(content, dict):
        return {name: plain(value) for name, value in content.items()}
    return content.item() if isinstance(content, np.generic) else content


def _is_list_of_series(X: Any) -> bool:  # noqa: N803
    if isinstance(X, np.ndarray):
        if X.dtype != object or X.ndim != 1:
            return False
    elif not isinstance(X, list | tuple):
        return False
    return len(X) > 0 and all(isinstance(one, np.ndarray) and one.ndim > 1 for one in X)


def _read_one(one: np.ndarray, i: int) -> np.ndarray:
    if one.ndim != 2 or not one.size:
        raise InputError(f"series {i} of shape {one.shape}", expected="an array (features, time)")
    values: np.ndarray = check_array(one, dtype=np.float64, ensure_all_finite=False, input_name=f"series {i}")
    return values


def _refuse_extremes(one: np.ndarray, i: int) -> None:
    with np.errstate(invalid="ignore"):
        bad = np.argwhere(np.abs(one) > _LARGEST)
    if len(bad):
        feature, step = bad[0]
        raise InputError(
            f"{one[feature, step]:g} in series {i}, feature {feature}, step {step} of X",
            expected="finite numbers of single precision, NaN where nothing was measured (infinity is no number)",
        )


def _refuse_short(arrays: Sequence[np.ndarray], flat: bool) -> None:
    for i, one in enumerate(arrays):
        if one.shape[1] < 2:
            shape = " (a 2-D X is (series, time); this one has n_features = 1)" if flat else ""
            raise InputError(f"series {i} with 1 step{shape}", expected="at least 2 steps in each series", do="drop it")


def _refuse_width(width: int, n_features: int, owner: Any, flat: bool) -> NoReturn:
    shape = " (a 2-D X is (series, time), with one feature)" if flat else ""
    raise InputError(
        f"X has {width} features{shape}, but {type(owner).__name__} is expecting {n_features} features as input",
        do="pass the features that it was fitted on, in that order",
    )


def _refuse_lengths(name: str, found: int, n_series: int) -> None:
    if found != n_series:
        raise InputError(
            f"{name} of {found} for {n_series} series",
            expected="one for each series",
            do="check for inconsistent numbers of samples",
        )


def _without_dashes(error: Exception) -> str:
    return re.sub(r"--(?=[a-z])", "", str(error))
