import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clinical_files import real_source
from whichwhen.data.clinical import free_channels_only, mask_only, recorded_cost, time_only
from whichwhen.data.store import SeriesSet
from whichwhen.errors import SpecError
from whichwhen.menu import Feature, Menu, Order

FEATURES = tuple(Feature(name) for name in "abcde")
MENU = Menu(
    FEATURES,
    (
        Order("vital", ("a",), 0.0, free=True),
        Order("panel", ("b", "c"), 2.0),
        Order("other panel", ("c", "d"), 2.5),
        Order("single", ("b",), 0.5),
        Order("alone", ("e",), 3.0),
    ),
)


def make(rows: list[list[float]], lengths: tuple[int, ...] = ()) -> SeriesSet:
    values = np.array(rows, dtype=np.float32).reshape(-1, 5)
    bounds = np.cumsum(lengths or (len(values),))
    parts = np.split(values, bounds[:-1])
    return SeriesSet.from_list(parts, np.zeros(len(parts)), FEATURES)


N = np.nan


def test_mask_only_shows_where_and_nothing_else() -> None:
    one, other = make([[1, N, 3, N, 0], [N, 2, N, -4, N]]), make([[7, N, 8, N, 9], [N, 1, N, 1, N]])
    np.testing.assert_array_equal(mask_only(one).values, [[1, N, 1, N, 1], [N, 1, N, 1, N]])
    np.testing.assert_array_equal(mask_only(one).values, mask_only(other).values)
    assert mask_only(one).values.dtype == np.float32


def test_time_only_shows_nothing_but_lengths() -> None:
    series = make([[1, 2, 3, 4, 5]] * 3, (1, 2))
    blank = time_only(series)
    assert np.isnan(blank.values).all()
    assert blank.lengths.tolist() == [1, 2]
    assert blank.labels is series.labels
    assert not np.isnan(series.values).any()


def test_free_channels_only_is_a_menu_without_prices() -> None:
    menu = free_channels_only(MENU)
    assert menu.names == ("vital",)
    assert menu.features == FEATURES
    with pytest.raises(SpecError, match="without free orders"):
        free_channels_only(Menu.one_per_feature(FEATURES))


@pytest.mark.parametrize(
    ("row", "cost"),
    [
        ([N, N, N, N, N], 0),
        ([1, N, N, N, N], 0),
        ([N, 1, N, N, N], 0.5),
        ([N, 1, 1, N, N], 2),
        ([N, N, 1, N, N], 2),
        ([N, 1, 1, 1, N], 3),
        ([N, N, N, 1, 1], 5.5),
        ([1, 1, 1, 1, 1], 6),
    ],
)
def test_a_record_costs_the_cheapest_orders_that_give_it(row: list[float], cost: float) -> None:
    assert recorded_cost(make([row]), MENU).tolist() == [cost]


def test_costs_add_up_over_the_steps_of_each_series() -> None:
    rows = [[N, 1, N, N, N], [N, N, N, N, 1], [N, N, N, N, N], [1, 1, 1, 1, 1]]
    assert recorded_cost(make(rows, (2, 2)), MENU).tolist() == [3.5, 6]


@settings(deadline=None)
@given(data=st.data())
def test_the_cheapest_orders_are_found_whatever_the_panels(data: st.DataObject) -> None:
    panels = data.draw(st.lists(st.sets(st.sampled_from("abcde"), min_size=1), min_size=1, max_size=5))
    prices = data.draw(st.lists(st.integers(1, 9), min_size=len(panels), max_size=len(panels)))
    orders = [
        *(Order(f"p{i}", tuple(sorted(one)), float(price)) for i, (one, price) in enumerate(zip(panels, prices, strict=True))),
        *(Order(name, (name,), 20.0) for name in "abcde"),
    ]
    seen = data.draw(st.sets(st.sampled_from("abcde")))
    least = min(
        sum(order.cost for order in chosen)
        for count in range(len(orders) + 1)
        for chosen in itertools.combinations(orders, count)
        if seen <= {name for order in chosen for name in order.features}
    )
    row = [1.0 if name in seen else N for name in "abcde"]
    assert recorded_cost(make([row]), Menu(FEATURES, tuple(orders))).tolist() == [least]


def test_a_real_record_costs_about_the_same_in_each_set() -> None:
    source = real_source("physionet2012")
    assert source.menu is not None
    means = [recorded_cost(part, source.menu).mean() for part in (source.train, *source.tests.values())]
    assert all(60 < mean < 66 for mean in means)
