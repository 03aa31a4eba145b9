"""Menus from YAML and CSV files, and back. docs/own-data.md shows both forms.

In YAML everything but ``orders`` may be left out, and most orders need one line::

    free: [heart_rate, temperature]     # arrive at every step by themselves
    rest: each                          # what no order names: each | free | ignore | a cost; without it an error
    orders:
      lactate: 4                        # one feature, at this cost
      blood gas: {cost: 8, features: [ph, pco2, po2], turnaround: 1, retest: 2}
    features:
      ph: {unit: "", low: 6.5, high: 8}

In CSV each row is an order (name, features, cost, turnaround, retest, free, mandatory), with ``;`` between features; a row
called ``*`` stands for the rest.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, StrictBool, StrictFloat, StrictInt, ValidationError

from whichwhen.errors import SpecError, hint
from whichwhen.files import write_text
from whichwhen.menu import Feature, Menu, Order
from whichwhen.yaml_lines import Lines, read_yaml

COLUMNS = ("name", "features", "cost", "turnaround", "retest", "free", "mandatory")
NEEDED = ("name", "cost")
_TRUE, _FALSE = ("yes", "true", "1", "x"), ("no", "false", "0", "")


class _Entry(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class OrderEntry(_Entry):
    """One order of a file; what is left out is None."""

    name: str
    features: tuple[str, ...] | None = None
    cost: StrictInt | StrictFloat | None = None
    turnaround: StrictInt = 1
    retest: StrictInt = 1
    free: StrictBool = False
    mandatory: StrictBool = False


class FeatureEntry(_Entry):
    """What is known about a feature."""

    unit: str | None = None
    low: StrictInt | StrictFloat | None = None
    high: StrictInt | StrictFloat | None = None


class MenuFile(_Entry):
    """A whole file."""

    orders: tuple[OrderEntry, ...] = ()
    free: tuple[str, ...] = ()
    rest: Literal["each", "free", "ignore"] | StrictInt | StrictFloat | None = None
    features: Mapping[str, FeatureEntry] = {}


def load_menu(path: Path | str, features: Iterable[Feature | str], free: Collection[str] = ()) -> Menu:
    """The menu in a YAML (.yaml, .yml) or CSV (.csv) file, over the features of the data.

    Args:
        path: the file.
        features: the F columns, in the order of the data; the file may add units and ranges.
        free: features that arrive by themselves where the file does not name them (static columns).
    """
    path = Path(path)
    known = [Feature(one) if isinstance(one, str) else one for one in features]
    if path.suffix.lower() not in (".yaml", ".yml", ".csv"):
        raise SpecError(f"menu file {path}", expected="a name that ends in .yaml, .yml or .csv", do="rename it")
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise SpecError(f"no menu file {path}", do="check --menu") from None
    except (OSError, UnicodeDecodeError) as error:
        raise SpecError(
            f"menu file {path} can't be read ({getattr(error, 'strerror', None) or 'not UTF-8'})", expected="a text file"
        ) from None
    lines = Lines(str(path))
    content = _from_csv(text, lines) if path.suffix.lower() == ".csv" else _from_yaml(text, lines)
    return _make_menu(_parse(content, lines), known, free, lines)


def save_menu(path: Path | str, menu: Menu) -> None:
    """Write a menu as YAML or CSV, so that :func:`load_menu` with the same features gives it back.

    CSV has no place for units and ranges: there they come from the features that ``load_menu`` is given.
    """
    path = Path(path)
    if path.suffix.lower() == ".csv":
        write_text(path, _to_csv(menu))
    elif path.suffix.lower() in (".yaml", ".yml"):
        import yaml

        write_text(path, yaml.safe_dump(_to_plain(menu), sort_keys=False, allow_unicode=True))
    else:
        raise SpecError(f"menu file {path}", expected="a name that ends in .yaml, .yml or .csv", do="rename it")


# reading


def _from_yaml(text: str, lines: Lines) -> dict[str, Any]:
    content = read_yaml(text, lines, texts=("name", "unit", "features", "rest"))
    if content is None:
        raise SpecError(f"{lines.file} is empty", expected="`orders:` with at least one order")
    if not isinstance(content, dict):
        raise SpecError(f"{lines.file} holds no keys", expected="`orders:` with one order a line", do="see docs/own-data.md")
    for key in ("rest", "free"):
        content[key] = _plain(content.get(key), key)
    orders = content.get("orders")
    found: list[Any] = []
    pairs: list[tuple[Any, Any, tuple[Any, ...]]] = []
    if isinstance(orders, dict):
        pairs = [(name, order, ("orders", name)) for name, order in orders.items()]
    elif isinstance(orders, list):
        pairs = [(None, order, ("orders", i)) for i, order in enumerate(orders)]
    elif orders is not None:
        raise lines.error(("orders",), f"orders is {orders!r}", expected="one order a line")
    for place, (name, order, where) in enumerate(pairs):
        found.append(_whole_order(name, order, where, lines))
        lines.also(("orders", place), where)
    content["orders"] = found
    if content.get("features") is None:
        content["features"] = {}
    if isinstance(content["features"], dict):
        content["features"] = {name: {} if one is None else one for name, one in content["features"].items()}
    return {key: value for key, value in content.items() if value is not None}


def _plain(value: Any, key: str) -> Any:
    """Names in a list of one are fine without brackets; a cost for the rest is a number."""
    if key == "free" and isinstance(value, str):
        return [value]
    if key == "rest" and isinstance(value, str) and value not in ("each", "free", "ignore"):
        try:
            return float(value)
        except ValueError:
            return value
    return value


def _whole_order(name: str | None, order: Any, where: tuple[Any, ...], lines: Lines) -> dict[str, Any]:
    """The short forms written out: ``name: cost``, ``name: [features]``, ``name:``, ``- name``."""
    if name is None and isinstance(order, str):
        return {"name": order}
    if isinstance(order, list) and name is not None:
        return {"name": name, "features": order}
    if order is None and name is not None:
        return {"name": name}
    if isinstance(order, dict):
        whole = dict(order)
        if name is not None:
            if "name" in whole:
                raise lines.error((*where, "name"), f"order {name!r} has a second name", do="leave out `name`")
            whole["name"] = name
        elif "name" not in whole:
            raise lines.error(where, "an order without a name", expected="`name:`")
        if isinstance(whole.get("features"), str):
            whole["features"] = [whole["features"]]
        return whole
    if name is not None:
        return {"name": name, "cost": order}
    raise lines.error(where, f"an order that is {order!r}", expected="a name, or `name:` with more")


def _from_csv(text: str, lines: Lines) -> dict[str, Any]:
    if not text.strip():
        raise SpecError(f"{lines.file} is empty", expected=f"a header ({','.join(COLUMNS)}) and one order a row")
    separator = ";" if text.splitlines()[0].count(";") > text.splitlines()[0].count(",") else ","
    reader = csv.reader(io.StringIO(text), delimiter=separator, skipinitialspace=True)
    between = ";" if separator == "," else ","
    try:
        header = [word.strip() for word in next(reader)]
        rows = [(reader.line_num, row) for row in reader if any(word.strip() for word in row)]
    except csv.Error as error:
        raise SpecError(f"{lines.file}, line {reader.line_num}: not CSV ({error})") from None
    for column in header:
        if column not in COLUMNS:
            raise SpecError(
                f"{lines.file}: unknown column {column!r}", expected=f"{', '.join(COLUMNS)}", do=hint(column, COLUMNS)
            )
        if header.count(column) > 1:
            raise SpecError(f"{lines.file}: two columns {column!r}", expected="each of them once")
    if lost := [column for column in NEEDED if column not in header]:
        raise SpecError(f"{lines.file}: no column {lost[0]!r}", expected=f"at least {' and '.join(NEEDED)}")
    content: dict[str, Any] = {"orders": []}
    for line, row in rows:
        if len(row) != len(header):
            raise SpecError(f"{lines.file}, line {line}: {len(row)} cells", expected=f"{len(header)}, as in the header")
        cells = {column: word.strip() for column, word in zip(header, row, strict=True) if word.strip()}
        if "name" not in cells:
            raise SpecError(f"{lines.file}, line {line}: an order without a name", expected="a name in each row")
        where = ("rest",) if cells["name"] == "*" else ("orders", len(content["orders"]))
        lines.put(where, line)
        if cells["name"] == "*":
            if "rest" in content:
                raise SpecError(f"{lines.file}, line {line}: a second row '*'", expected="one for all the rest")
            content["rest"] = _csv_rest(cells, where, lines)
        else:
            content["orders"].append(_csv_order(cells, between, where, lines))
    return content


def _csv_rest(cells: dict[str, str], where: tuple[Any, ...], lines: Lines) -> Any:
    rest = cells.get("features", "free" if _flag(cells, "free", where, lines) else "each")
    used = {"name", "features", "free", *(["cost"] if rest == "each" else [])}
    for key in cells.keys() - used:
        if key != "mandatory" or _flag(cells, key, where, lines):
            raise lines.error(
                where,
                f"{key} {cells[key]!r} in the row '*'",
                expected="features each (with a cost), free or ignore",
                do="give what is to have more than a price a row of its own",
            )
    return _number(cells["cost"]) if rest == "each" and "cost" in cells else rest


def _csv_order(cells: dict[str, str], between: str, where: tuple[Any, ...], lines: Lines) -> dict[str, Any]:
    order: dict[str, Any] = {"name": cells["name"]}
    if "features" in cells:
        order["features"] = [name.strip() for name in cells["features"].split(between) if name.strip()]
    for key in ("cost", "turnaround", "retest"):
        if key in cells:
            order[key] = _number(cells[key])
    for key in ("free", "mandatory"):
        order[key] = _flag(cells, key, where, lines)
    return order


def _number(word: str) -> int | float | str:
    for kind in (int, float):
        try:
            return kind(word)
        except ValueError:
            pass
    return word


def _flag(cells: dict[str, str], key: str, where: tuple[Any, ...], lines: Lines) -> bool:
    word = cells.get(key, "").lower()
    if word not in _TRUE + _FALSE:
        raise lines.error(where, f"order {cells['name']!r}: {key} is {cells[key]!r}", expected="yes or no")
    return word in _TRUE


def _parse(content: dict[str, Any], lines: Lines) -> MenuFile:
    try:
        return MenuFile.model_validate(content)
    except ValidationError as error:
        first = error.errors()[0]
        raise _schema_error(first["type"], first["loc"], first["input"], content, lines) from None


def _schema_error(kind: str, place: tuple[Any, ...], got: Any, content: dict[str, Any], lines: Lines) -> SpecError:
    """Pydantic's finding in the project's own words."""
    whose = ""
    model: type[BaseModel] = MenuFile
    if place[0] == "orders" and len(place) > 2:
        whose, model = f"order {content['orders'][place[1]]['name']!r}: ", OrderEntry
    elif place[0] == "features" and len(place) > 2:
        whose, model = f"feature {place[1]!r}: ", FeatureEntry
    depth = 1 if model is MenuFile else 3
    key = str(place[depth - 1])
    if kind == "extra_forbidden":
        known = [name for name in model.model_fields if name != "name" or model is not OrderEntry]
        return lines.error(
            place[:depth], f"{whose}unknown key {key!r}", expected=f"one of {', '.join(known)}", do=hint(key, known)
        )
    if key in ("features", "free") and model is not FeatureEntry and len(place) <= depth + 1:
        wanted = "names of features"
        if key == "free" and model is OrderEntry:
            wanted = "true or false"
        if key == "features" and model is MenuFile:
            wanted = "unit, low and high of features by name"
    else:
        wanted = {
            "cost": "a number above 0",
            "turnaround": "a whole number of steps from 1",
            "retest": "a whole number of steps from 1",
            "mandatory": "true or false",
            "rest": "each, free, ignore or a cost",
            "low": "a number",
            "high": "a number",
        }.get(key, "text")
    return lines.error(place[:depth], f"{whose}{key} is {got!r}", expected=wanted)


# from the file's content to a menu


def _make_menu(file: MenuFile, features: Sequence[Feature], free: Collection[str], lines: Lines) -> Menu:
    known = {feature.name: feature for feature in features}
    for name, facts in file.features.items():
        _check_known(name, known, ("features", name), f"features names the unknown feature {name!r}", lines)
        known[name] = _with_facts(known[name], facts, lines)
    orders: list[Order] = []
    seen: set[str] = set()

    def add(order: Order, where: tuple[Any, ...]) -> None:
        if order.name in seen:
            raise lines.error(where, f"two orders called {order.name!r}", expected="unique names", do="rename one of them")
        seen.add(order.name)
        try:
            Menu(tuple(known.values()), (order,))
        except SpecError as error:
            raise SpecError(f"{lines.at(where)}: {error}") from None
        orders.append(order)

    for name in file.free:
        _check_known(name, known, ("free",), f"free names the unknown feature {name!r}", lines)
        add(Order(name, (name,), 0.0, free=True), ("free",))
    for i, entry in enumerate(file.orders):
        where = ("orders", i)
        if entry.features is None:
            got = f"order {entry.name!r} has no `features`, and no feature is called that"
            _check_known(entry.name, known, where, got, lines)
        reveals = (entry.name,) if entry.features is None else entry.features
        for name in reveals:
            _check_known(name, known, where, f"order {entry.name!r} names the unknown feature {name!r}", lines)
        if len(set(reveals)) < len(reveals):
            raise lines.error(where, f"order {entry.name!r} names a feature twice", expected="each feature once")
        cost = float(entry.cost) if entry.cost is not None else 0.0 if entry.free else 1.0
        add(Order(entry.name, tuple(reveals), cost, entry.turnaround, entry.retest, entry.free, entry.mandatory), where)

    named = {name for order in orders for name in order.features}
    left = [name for name in known if name not in named]
    for name in (name for name in left if name in free):
        add(Order(name, (name,), 0.0, free=True), ("orders",))
    left = [name for name in left if name not in free]
    if left and file.rest is None:
        shown = ", ".join(left[:12]) + (f", … ({len(left)})" if len(left) > 12 else "")
        raise SpecError(
            f"{lines.file}: no order reveals {shown}",
            expected="each feature in an order, in `free`, or a word on the rest",
            do="add `rest: each`, `rest: free` or `rest: ignore` (in CSV a row named *)",
        )
    if file.rest != "ignore":
        cost = 1.0 if isinstance(file.rest, str) or file.rest is None else float(file.rest)
        for name in left:
            add(Order(name, (name,), 0.0 if file.rest == "free" else cost, free=file.rest == "free"), ("rest",))
    if not orders:
        raise SpecError(f"{lines.file}: no orders", expected="at least one")
    return Menu(tuple(known.values()), tuple(orders))


def _check_known(name: str, known: Collection[str], where: tuple[Any, ...], got: str, lines: Lines) -> None:
    if name not in known:
        shown = list(known)[:12]
        raise lines.error(
            where, got, expected=f"one of {', '.join(shown)}{', …' if len(known) > 12 else ''}", do=hint(name, known)
        )


def _with_facts(feature: Feature, entry: FeatureEntry, lines: Lines) -> Feature:
    changed = replace(
        feature,
        unit=feature.unit if entry.unit is None else entry.unit,
        low=feature.low if entry.low is None else float(entry.low),
        high=feature.high if entry.high is None else float(entry.high),
    )
    if not changed.low < changed.high:
        raise lines.error(
            ("features", feature.name),
            f"feature {feature.name!r} ranges from {changed.low:g} to {changed.high:g}",
            expected="low below high",
        )
    return changed


# writing


def _to_plain(menu: Menu) -> dict[str, Any]:
    content: dict[str, Any] = {}
    covered = {name for order in menu.orders for name in order.features}
    if any(feature.name not in covered for feature in menu.features):
        content["rest"] = "ignore"
    content["orders"] = {order.name: _short(order) for order in menu.orders}
    facts = {
        feature.name: {
            key: value
            for key, value in (("unit", feature.unit), ("low", feature.low), ("high", feature.high))
            if value not in ("", -math.inf, math.inf)
        }
        for feature in menu.features
    }
    if any(facts.values()):
        content["features"] = {name: fact for name, fact in facts.items() if fact}
    return content


def _short(order: Order) -> Any:
    whole: dict[str, Any] = {} if order.free else {"cost": order.cost}
    if order.features != (order.name,):
        whole["features"] = list(order.features)
    whole |= {key: getattr(order, key) for key in ("turnaround", "retest") if getattr(order, key) != 1}
    whole |= {key: True for key in ("free", "mandatory") if getattr(order, key)}
    return order.cost if list(whole) == ["cost"] else whole


def _to_csv(menu: Menu) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    for order in menu.orders:
        if (
            order.name == "*"
            or order.name != order.name.strip()
            or any(";" in one or one != one.strip() for one in order.features)
        ):
            raise SpecError(f"order {order.name!r} can't be written as CSV", do="write YAML")
        flags = ["yes" if value else "no" for value in (order.free, order.mandatory)]
        writer.writerow([order.name, "; ".join(order.features), repr(order.cost), order.turnaround, order.retest, *flags])
    covered = {name for order in menu.orders for name in order.features}
    if any(feature.name not in covered for feature in menu.features):
        writer.writerow(["*", "ignore", "", "", "", "", ""])
    return out.getvalue()
