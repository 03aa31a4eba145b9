import math

import numpy as np
import pytest

from builders import features_of
from whichwhen.errors import SpecError
from whichwhen.menu import Menu, Order


def test_without_orders_every_feature_is_one_at_cost_1_and_turnaround_1():
    menu = Menu.one_per_feature(features_of(4))
    assert menu.names == ("x0", "x1", "x2", "x3")
    assert menu.costs.tolist() == [1, 1, 1, 1]
    assert np.array_equal(menu.reveals, np.eye(4, dtype=bool))
    assert {order.turnaround for order in menu.orders} == {1}


def test_overlapping_panels_reveal_their_features():
    menu = Menu(tuple(features_of(3)), (Order("pair", ("x2", "x0"), cost=2.5), Order("one", ("x2",), cost=0.5)))
    assert menu.reveals.tolist() == [[True, False, True], [False, False, True]]
    assert menu.costs.tolist() == [2.5, 0.5]


@pytest.mark.parametrize(
    ("orders", "words"),
    [
        ((), "without orders"),
        ((Order("a", ("x0",)), Order("a", ("x1",))), "'a'"),
        ((Order("a", ()),), "reveals nothing"),
        ((Order("a", ("y",)),), "'y'"),
        ((Order("a", ("x0",), cost=0),), "cost 0"),
        ((Order("a", ("x0",), cost=-1),), "cost -1"),
        ((Order("a", ("x0",), cost=math.inf),), "cost inf"),
        ((Order("a", ("x0",), cost=math.nan),), "cost nan"),
        ((Order("a", ("x0",), cost=2, free=True),), "free and has cost 2"),
        ((Order("a", ("x0",), cost=math.nan, free=True),), "free and has cost nan"),
        ((Order("a", ("x0",), cost=0, free=True, mandatory=True),), "free and mandatory"),
        ((Order("a", ("x0",), turnaround=0),), "turnaround 0"),
        ((Order("a", ("x0",), retest=-1),), "retest -1"),
    ],
)
def test_menus_that_make_no_sense_are_refused(orders, words):
    with pytest.raises(SpecError, match=words) as error:
        Menu(tuple(features_of(2)), orders)
    assert "\n" not in str(error.value)


def test_two_features_of_one_name_are_refused():
    with pytest.raises(SpecError, match="'x0'"):
        Menu.one_per_feature(features_of(1) * 2)
