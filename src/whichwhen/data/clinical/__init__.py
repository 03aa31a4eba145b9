"""Intensive-care records as PhysioNet ships them, each with a menu of orders; and what their results are held against."""

from whichwhen.data.clinical.controls import free_channels_only, mask_only, recorded_cost, time_only
from whichwhen.data.clinical.menus import PRICES
from whichwhen.data.clinical.physionet2012 import load_physionet2012, read_physionet2012
from whichwhen.data.clinical.physionet2019 import load_physionet2019, read_physionet2019

__all__ = [
    "PRICES",
    "free_channels_only",
    "load_physionet2012",
    "load_physionet2019",
    "mask_only",
    "read_physionet2012",
    "read_physionet2019",
    "recorded_cost",
    "time_only",
]
