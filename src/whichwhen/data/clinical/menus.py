"""The default menus of the clinical sets: what arrives by itself, what is ordered together, and for how much."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from whichwhen.menu import Feature, Menu, Order

PRICES: Mapping[str, float] = {
    "blood gas": 6.0,  # CPT 82803
    "lactate": 2.5,  # 83605
    "metabolic panel": 2.0,  # 80048
    "glucose": 1.0,  # 82947
    "magnesium": 1.5,  # 83735
    "phosphate": 1.0,  # 84100
    "blood count": 1.5,  # 85027
    "hematocrit": 0.5,  # 85014
    "liver panel": 2.0,  # 80076
    "bilirubin direct": 1.0,  # 82248
    "cholesterol": 1.0,  # 82465
    "troponin I": 3.0,  # 84484
    "troponin T": 3.0,  # 84484
    "PTT": 1.5,  # 85730
    "fibrinogen": 2.0,  # 85384
}
"""Relative prices of the labs; 1 = a single simple chemistry test.

They follow the order of magnitude of the US Medicare clinical laboratory fee schedule (1 is about 4 to 5 dollars there),
rounded by hand to half units. They are meant to be replaced by a site's own.
"""


def make_clinical_menu(
    features: Sequence[Feature], free: Mapping[str, Sequence[str]], labs: Mapping[str, Sequence[str]]
) -> Menu:
    """Free groups first, then the labs at their price; both name the features that they reveal."""
    return Menu(
        tuple(features),
        (
            *(Order(name, tuple(reveals), cost=0.0, free=True) for name, reveals in free.items()),
            *(Order(name, tuple(reveals), cost=PRICES[name]) for name, reveals in labs.items()),
        ),
    )
