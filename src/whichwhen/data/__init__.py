"""Series from archives and tasks, with fakes, splits and scaling."""

from whichwhen.data.catalog import CATALOG, load_dataset, reference, task_of
from whichwhen.data.checks import check_observed, check_series
from whichwhen.data.on_disk import StoreWriter, open_store, split_by_group
from whichwhen.data.store import Dataset, Reference, Scaler, SeriesSet

__all__ = [
    "CATALOG",
    "Dataset",
    "Reference",
    "Scaler",
    "SeriesSet",
    "StoreWriter",
    "check_observed",
    "check_series",
    "load_dataset",
    "open_store",
    "reference",
    "split_by_group",
    "task_of",
]
