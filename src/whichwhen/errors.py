"""Every error that a user can cause, in one tree.

::

    WhichwhenError
    ├── SpecError        a setting is out of range, or settings do not fit each other
    │   └── ParameterError   … a parameter of an estimator; also a ValueError, as scikit-learn wants it
    ├── DataError        the data is missing, malformed or not what was asked for
    │   ├── InputError       … series or labels given to an estimator; also a ValueError
    │   └── DownloadError    an archive is not here and could not be fetched
    ├── FeatureError     the columns are not the ones the model was trained on
    ├── RunFolderError   a run folder is half written, foreign, edited or taken
    ├── TrainingError    training went wrong in a way that other settings can mend
    ├── EngineError      the machines that a grid was to run on can't be reached
    │   └── MissingExtraError    an optional package is not installed
    └── SessionError     a step-by-step session got something it cannot use

Each message says, in one line, what was got, what was expected, and what to do. The command line turns them into
exit code 2 without a traceback; anything else that escapes is a bug. What can be lived with is a :class:`DataWarning` or a
:class:`BudgetWarning`.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class WhichwhenError(Exception):
    """Base of all errors that a user can cause. ``str(error)`` is one line: got, expected, do this."""

    def __init__(self, got: str, *, expected: str = "", do: str = "") -> None:
        parts = [got]
        if expected:
            parts.append(f"expected {expected}")
        if do:
            parts.append(do)
        super().__init__("; ".join(part.rstrip(".") for part in parts))


class SpecError(WhichwhenError):
    """A setting is out of range, or settings do not fit each other."""


class ParameterError(SpecError, ValueError):
    """A parameter of an estimator is out of range, or parameters do not fit each other or the data."""


class DataError(WhichwhenError):
    """The data is missing, malformed or not what was asked for."""


class DataWarning(UserWarning):
    """Something about the data that may be meant and may be a mistake. One line that names the column."""


class BudgetWarning(UserWarning):
    """A budget that a model can't reach. One line that names the nearest one."""


class InputError(DataError, ValueError):
    """Series, labels or weights given to an estimator are not usable."""


class DownloadError(DataError):
    """An archive is not in the data folder and could not be fetched."""


class FeatureError(WhichwhenError, ValueError):
    """The columns are not the ones the model was trained on."""


class RunFolderError(WhichwhenError):
    """A run folder is half written, from another version, edited by hand, or holds another run."""


class SessionError(WhichwhenError):
    """A step-by-step session got something it cannot use."""


class TrainingError(WhichwhenError):
    """Training went wrong in a way that other settings can mend."""


class EngineError(WhichwhenError):
    """The machines that a grid was to run on can't be reached."""


class MissingExtraError(EngineError):
    """An optional package is not installed."""

    def __init__(self, extra: str, what: str) -> None:
        super().__init__(f"{what} needs packages that are not installed", do=f"run `pip install 'whichwhen[{extra}]'`")


def hint(name: str, known: Iterable[str]) -> str:
    """``did you mean …?`` where a known name looks like this one, else nothing."""
    folded = {one.casefold(): one for one in known}
    near = [folded[match] for match in difflib.get_close_matches(name.casefold(), list(folded), n=2, cutoff=0.6)]
    return f"did you mean {' or '.join(repr(one) for one in near)}?" if near else ""
