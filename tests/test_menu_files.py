"""Menus from files: what can be written, what comes back, and every mistake with its file, line and order."""

import math
import re
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from whichwhen.errors import SpecError
from whichwhen.menu import Feature, Menu, Order
from whichwhen.menu_files import load_menu, save_menu

FEATURES = ("heart_rate", "lactate", "ph", "pco2", "po2", "NO")
WARD = """\
# what the ward pays
free: [heart_rate]
rest: ignore
orders:
  lactate: 4
  blood gas: {cost: 8.5, features: [ph, pco2, po2], turnaround: 1, retest: 2}
  ph and nitric oxide:
    features: [ph, NO]
    mandatory: true
features:
  ph: {low: 6.5, high: 8}
  pco2: {unit: mmHg}
"""


def menu_of(tmp_path: Path, text: str, name: str = "menu.yaml", **options) -> Menu:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return load_menu(path, options.pop("features", FEATURES), **options)


def refused(tmp_path: Path, text: str, name: str = "menu.yaml") -> str:
    with pytest.raises(SpecError) as caught:
        menu_of(tmp_path, text, name)
    message = str(caught.value)
    assert "\n" not in message
    assert name in message
    return message


# what can be written


def test_a_file_says_costs_panels_delays_and_what_is_free(tmp_path: Path) -> None:
    menu = menu_of(tmp_path, WARD)
    assert menu.orders == (
        Order("heart_rate", ("heart_rate",), 0.0, free=True),
        Order("lactate", ("lactate",), 4.0),
        Order("blood gas", ("ph", "pco2", "po2"), 8.5, retest=2),
        Order("ph and nitric oxide", ("ph", "NO"), 1.0, mandatory=True),
    )
    assert [feature.name for feature in menu.features] == list(FEATURES)
    assert menu.features[2] == Feature("ph", "", 6.5, 8.0)
    assert menu.features[3] == Feature("pco2", "mmHg")


def test_the_same_menu_as_a_list_of_orders(tmp_path: Path) -> None:
    text = "orders:\n- name: lactate\n  cost: 4\n- ph\n- {name: gas, features: [pco2, po2], cost: 2}\nrest: free\n"
    menu = menu_of(tmp_path, text)
    assert menu.orders[:3] == (Order("lactate", ("lactate",), 4), Order("ph", ("ph",)), Order("gas", ("pco2", "po2"), 2))
    assert [order.name for order in menu.orders if order.free] == ["heart_rate", "NO"]


def test_the_same_menu_as_csv(tmp_path: Path) -> None:
    rows = [
        "name,features,cost,turnaround,retest,free,mandatory",
        "heart_rate,,,,,yes,",
        "lactate,,4,,,,",
        "blood gas,ph; pco2;po2,8.5,1,2,no,no",
        "",
        "ph and nitric oxide,ph;NO,,,,,yes",
        "*,ignore,,,,,",
    ]
    assert menu_of(tmp_path, "\n".join(rows), "menu.csv").orders == menu_of(tmp_path, WARD).orders


def test_csv_of_a_spreadsheet_that_separates_by_semicolons(tmp_path: Path) -> None:
    menu = menu_of(tmp_path, "\ufeffname;features;cost\r\ngas;ph, pco2;3\r\n*;;2\r\n", "menu.csv")
    assert menu.orders[0] == Order("gas", ("ph", "pco2"), 3)
    assert set(menu.prices[1:]) == {2.0}


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("lactate: 4", Order("lactate", ("lactate",), 4)),
        ("lactate: 1e3", Order("lactate", ("lactate",), 1000)),
        ("lactate:", Order("lactate", ("lactate",))),
        ("lactate: {free: true}", Order("lactate", ("lactate",), 0, free=True)),
        ("lactate: {free: yes, cost: 0}", Order("lactate", ("lactate",), 0, free=True)),
        ("gas: [ph, NO]", Order("gas", ("ph", "NO"))),
        ("gas: {features: NO}", Order("gas", ("NO",))),
        ("NO: 2", Order("NO", ("NO",), 2)),
        ("7: [ph]", Order("7", ("ph",))),
    ],
)
def test_short_forms(tmp_path: Path, line: str, expected: Order) -> None:
    assert menu_of(tmp_path, f"rest: ignore\norders:\n  {line}\n").orders == (expected,)


@pytest.mark.parametrize(
    ("rest", "orders"),
    [
        ("each", [Order(name, (name,)) for name in FEATURES[1:]]),
        ("2.5", [Order(name, (name,), 2.5) for name in FEATURES[1:]]),
        ("free", [Order(name, (name,), 0, free=True) for name in FEATURES[1:]]),
        ("ignore", []),
    ],
)
def test_the_rest(tmp_path: Path, rest: str, orders: list[Order]) -> None:
    assert list(menu_of(tmp_path, f"rest: {rest}\norders:\n  heart_rate: 3\n").orders[1:]) == orders


def test_static_columns_are_free_unless_the_file_names_them(tmp_path: Path) -> None:
    text = "orders: {heart_rate: 3, ph: 1}"
    menu = menu_of(tmp_path, text, features=("age", "heart_rate", "ph"), free=("age", "ph"))
    assert [(order.name, order.free) for order in menu.orders] == [("heart_rate", False), ("ph", False), ("age", True)]


# there and back

names = st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs", "Zl", "Zp")), min_size=1, max_size=8)


features_drawn = st.tuples(names, names | st.just(""), st.floats(-1e6, 1e6) | st.just(-math.inf), st.floats(1, 1e6) | st.none())
orders_drawn = st.tuples(
    names, st.sets(st.integers(0, 3), min_size=1), st.none() | st.floats(1e-6, 1e12), *[st.integers(1, 9)] * 2, st.booleans()
)
menus = st.tuples(
    st.lists(features_drawn, min_size=4, max_size=4, unique_by=lambda one: one[0]),
    st.lists(orders_drawn, min_size=1, max_size=5, unique_by=lambda one: one[0]),
)


def build(drawn: tuple[list[tuple], list[tuple]]) -> Menu:
    """Outside the strategy: the checks of types that run with the tests draw numbers of their own."""
    features = tuple(
        Feature(name, unit, low, math.inf if width is None else (low if low > -math.inf else 0) + width)
        for name, unit, low, width in drawn[0]
    )
    orders = tuple(
        Order(
            name,
            tuple(features[i].name for i in sorted(which)),
            0.0 if cost is None else cost,
            turnaround,
            retest,
            cost is None,
            mandatory and cost is not None,
        )
        for name, which, cost, turnaround, retest, mandatory in drawn[1]
    )
    return Menu(features, orders)


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(drawn=menus)
def test_a_menu_survives_yaml(tmp_path: Path, drawn: tuple[list[tuple], list[tuple]]) -> None:
    menu = build(drawn)
    save_menu(tmp_path / "menu.yaml", menu)
    assert load_menu(tmp_path / "menu.yaml", [feature.name for feature in menu.features]) == menu


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(drawn=menus)
def test_a_menu_survives_csv(tmp_path: Path, drawn: tuple[list[tuple], list[tuple]]) -> None:
    menu = build(drawn)
    words = [*(order.name for order in menu.orders), *(name for order in menu.orders for name in order.features)]
    if any(word != word.strip() or ";" in word or word == "*" for word in words):
        return
    save_menu(tmp_path / "menu.csv", menu)
    assert load_menu(tmp_path / "menu.csv", menu.features) == menu


# mistakes


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", ("empty", "orders")),
        ("# nothing\n", ("empty",)),
        ("- a\n- b\n", ("no keys",)),
        ("just text", ("no keys",)),
        ("rest: each\norders: 3\n", ("line 2", "orders is 3")),
        ("rest: ignore\n", ("no orders",)),
        ("orders:\n  gas: {features: [ph, pc02]}\n", ("line 2", "'gas'", "'pc02'", "did you mean 'pco2'")),
        ("orders:\n  lactat: 3\n", ("line 2", "'lactat'", "did you mean 'lactate'")),
        ("free: [hart_rate]\norders: {ph: 1}\n", ("line 1", "'hart_rate'", "'heart_rate'")),
        ("rest: each\norders: {ph: 1}\nfeatures:\n  hp: {low: 1}\n", ("line 4", "'hp'")),
        ("rest: each\norders:\n  ph: -2\n", ("line 3", "'ph'", "cost -2", "above 0")),
        ("rest: each\norders:\n  ph: .nan\n", ("line 3", "'ph'", "cost nan")),
        ("rest: each\norders:\n  ph: nan\n", ("line 3", "'ph'", "cost nan")),
        ("rest: each\norders:\n  ph: .inf\n", ("line 3", "'ph'", "cost inf")),
        ("rest: each\norders:\n  ph: 0\n", ("line 3", "'ph'", "cost 0", "mark it as free")),
        ("rest: each\norders:\n  ph: four\n", ("line 3", "'ph'", "cost is 'four'", "a number")),
        ("rest: each\norders:\n  ph: {cost: '4'}\n", ("line 3", "'ph'", "cost is '4'")),
        ("rest: each\norders:\n  ph: true\n", ("line 3", "'ph'", "cost is True")),
        ("rest: each\norders:\n  ph:\n    cost: 2\n    free: true\n", ("line 3", "'ph'", "free and has cost 2")),
        ("rest: each\norders:\n  ph:\n    free: true\n    mandatory: true\n", ("'ph'", "free and mandatory")),
        ("rest: each\norders:\n  ph:\n    cots: 2\n", ("line 4", "'ph'", "unknown key 'cots'", "'cost'")),
        ("rest: each\nodrers:\n  ph: 2\n", ("line 2", "unknown key 'odrers'", "'orders'")),
        ("rest: each\norders: {ph: 1}\nfeatures:\n  ph: {units: x}\n", ("line 4", "'ph'", "'units'", "'unit'")),
        ("rest: each\norders: {ph: 1}\nfeatures:\n  ph: {low: small}\n", ("line 4", "'ph'", "low is 'small'")),
        ("rest: each\norders: {ph: 1}\nfeatures:\n  ph: {low: 8, high: 6}\n", ("line 4", "'ph'", "8 to 6")),
        ("rest: each\norders: {ph: 1}\nfeatures: [ph]\n", ("line 3", "features is")),
        ("rest: some\norders: {ph: 1}\n", ("line 1", "rest is 'some'", "each, free, ignore")),
        ("rest: -1\norders: {ph: 1}\n", ("line 1", "cost -1")),
        ("rest: each\norders:\n  ph: {turnaround: 0}\n", ("line 3", "'ph'", "turnaround 0")),
        ("rest: each\norders:\n  ph:\n    turnaround: 1.5\n", ("line 4", "'ph'", "turnaround is 1.5", "whole number")),
        ("rest: each\norders:\n  ph: {retest: soon}\n", ("line 3", "'ph'", "retest is 'soon'")),
        ("rest: each\norders:\n  ph: {free: maybe}\n", ("line 3", "'ph'", "free is 'maybe'", "true or false")),
        ("rest: each\norders:\n  ph: 1\n  ph: 2\n", ("line 4", "'ph'", "twice")),
        ("rest: each\norders:\n- ph\n- name: ph\n", ("line 4", "two orders called 'ph'")),
        ("rest: each\nfree: [ph]\norders:\n  ph: 2\n", ("line 4", "two orders called 'ph'")),
        ("rest: each\norders:\n- cost: 3\n", ("line 3", "without a name")),
        ("rest: each\norders:\n  a: {features: []}\n", ("line 3", "'a'", "reveals nothing")),
        ("rest: each\norders:\n  a: [ph, ph]\n", ("line 3", "'a'", "twice")),
        ("rest: each\norders:\n  a: {features: {ph: 1}}\n", ("line 3", "'a'", "features is")),
        ("rest: each\norders:\n  ph: [1\n", ("line 4", "not YAML")),
        ("rest: each\norders:\n\tph: 1\n", ("line 3", "not YAML")),
        ("orders: &a\n  ph: *a\n", ("nested too deep",)),
        ("rest: each\norders:\n  ph: !!python/name:os.system 1\n", ("line 3", "not YAML")),
        ("? [a, b]\n: c\n", ("line 1", "a key that is not a name")),
        ("orders: {heart_rate: 1, ph: 1}\n", ("lactate, pco2, po2, NO", "rest: each")),
    ],
)
def test_a_mistake_is_named_by_line_and_order(tmp_path: Path, text: str, says: tuple[str, ...]) -> None:
    message = refused(tmp_path, text)
    for word in says:
        assert word in message


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", ("empty", "name,features,cost")),
        ("name,features\nph,ph\n", ("no column 'cost'", "name and cost")),
        ("order,cost\nph,1\n", ("unknown column 'order'",)),
        ("name,cots\nph,1\n", ("'cots'", "'cost'")),
        ("name,cost,cost\nph,1,1\n", ("two columns 'cost'",)),
        ("name,cost\nph,four\n", ("line 2", "'ph'", "cost is 'four'")),
        ("name,cost\n\nph,-1\n", ("line 3", "'ph'", "cost -1")),
        ("name,cost\nph,nan\n", ("line 2", "'ph'", "cost nan")),
        ("name,cost\nph\n", ("line 2", "1 cells", "2")),
        ("name,cost\n,3\n", ("line 2", "without a name")),
        ("name,cost\nph,1\nph,2\n", ("line 3", "two orders called 'ph'")),
        ("name,cost,free\nph,1,perhaps\n", ("line 2", "'ph'", "'perhaps'", "yes or no")),
        ("name,cost,free\nph,1,yes\n", ("line 2", "'ph'", "free and has cost 1")),
        ("name,cost,features\ngas,1,ph;pc02\n", ("line 2", "'gas'", "'pc02'", "'pco2'")),
        ("name,cost,turnaround\nph,1,2.5\n", ("line 2", "'ph'", "turnaround is 2.5")),
        ("name,cost\n*,1\n*,2\n", ("line 3", "second row '*'")),
        ("name,cost,turnaround\n*,1,3\n", ("line 2", "turnaround '3' in the row '*'")),
        ("name,cost,mandatory\n*,1,yes\n", ("line 2", "mandatory 'yes' in the row '*'")),
        ("name,features,cost\n*,ignore,5\n", ("line 2", "cost '5' in the row '*'")),
        ("name,cost\nph,2\n", ("heart_rate", "rest")),
        ("name,cost\n*,dear\n", ("line 2", "rest is 'dear'")),
    ],
)
def test_a_mistake_in_csv_is_named_by_line_and_order(tmp_path: Path, text: str, says: tuple[str, ...]) -> None:
    message = refused(tmp_path, text, "menu.csv")
    for word in says:
        assert word in message


def test_files_that_are_not_there_or_not_text(tmp_path: Path) -> None:
    (tmp_path / "binary.yaml").write_bytes(b"\xff\xfe\x00")
    for name, word in (("none.yaml", "no menu file"), ("binary.yaml", "UTF-8"), ("menu.json", ".yaml, .yml or .csv")):
        with pytest.raises(SpecError, match=re.escape(word)):
            load_menu(tmp_path / name, FEATURES)
    with pytest.raises(SpecError, match=r"yml or \.csv"):
        save_menu(tmp_path / "menu.txt", Menu.one_per_feature([Feature("a")]))


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.text(st.sampled_from("orders: ph{}[],\n-&*!'\"#0.5featuresnamecost"), max_size=60))
def test_whatever_is_in_the_file_is_a_menu_or_one_line(tmp_path: Path, text: str) -> None:
    for name in ("menu.yaml", "menu.csv"):
        message = ""
        try:
            menu_of(tmp_path, text, name)
        except SpecError as error:
            message = str(error)
        assert "\n" not in message


def test_names_that_csv_has_no_way_to_write_are_refused(tmp_path: Path) -> None:
    for name in ("*", " a", "b;c"):
        with pytest.raises(SpecError, match="write YAML"):
            save_menu(tmp_path / "menu.csv", Menu.one_per_feature([Feature(name)]))
    assert not list(tmp_path.iterdir())


# what the docs show


@pytest.mark.parametrize("kind", ["yaml", "csv"])
def test_the_menus_of_the_docs_can_be_read(kind: str, tmp_path: Path) -> None:
    page = (Path(__file__).resolve().parents[1] / "docs" / "own-data.md").read_text(encoding="utf-8")
    text = re.findall(rf"```{kind}\n(.*?)```", page, re.DOTALL)[0]
    labs = ("lactate", "sodium", "potassium", "creatinine", "ph", "pco2", "po2", "gcs")
    menu = menu_of(tmp_path, text, f"menu.{kind}", features=("heart_rate", "temperature", *labs, "other"))
    gas = next(order for order in menu.orders if order.name == "blood gas")
    assert gas == Order("blood gas", ("ph", "pco2", "po2"), 8.0, turnaround=1, retest=2)
    assert menu.orders[0] == Order("heart_rate", ("heart_rate",), 0.0, free=True)
    assert not menu.reveals[:, -1].any()
