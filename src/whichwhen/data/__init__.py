"""Series from archives and tasks, with fakes, splits and scaling."""

from whichwhen.data.catalog import CATALOG, check_observed, check_series, load_dataset, reference, task_of
from whichwhen.data.store import Dataset, Reference, Scaler, SeriesSet

__all__ = [
    "CATALOG",
    "Dataset",
    "Reference",
    "Scaler",
    "SeriesSet",
    "check_observed",
    "check_series",
    "load_dataset",
    "reference",
    "task_of",
]
