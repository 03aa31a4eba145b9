"""A table of your own: make one, say what can be ordered and for how much, and look at what was found.

Run it with `python examples/own_table.py`; it writes into a temporary folder and trains nothing.
"""

import tempfile
from pathlib import Path

import numpy as np
import polars as pl

from whichwhen import TableSpec, describe_table, load_dataset, load_menu, load_table
from whichwhen.cli.output import console_on
from whichwhen.reports.tables import print_table_report

MENU = """\
free: [heart_rate]
orders:
  lactate: 4
  blood gas: {cost: 8, features: [ph, pco2]}
features:
  ph: {low: 6.5, high: 8}
  pco2: {unit: mmHg}
"""


def make_table(stays: int = 60, seed: int = 0) -> pl.DataFrame:
    """Long: one measurement a row. The heart rate is there each hour, the rest when somebody asked for it."""
    rng = np.random.default_rng(seed)
    rows = []
    for stay in range(stays):
        died, age = stay % 3 == 0, int(rng.integers(30, 90))
        for hour in range(int(rng.integers(12, 25))):
            rows.append((stay, hour, "heart_rate", 80 + 15 * died + rng.normal(0, 8), died, age, stay // 2))
            if rng.random() < 0.3:
                rows.append((stay, hour, "lactate", 1.5 + died * hour / 10 + rng.normal(0, 0.3), died, age, stay // 2))
            if rng.random() < 0.2:
                rows.append((stay, hour, "ph", 7.4 - 0.1 * died + rng.normal(0, 0.03), died, age, stay // 2))
                rows.append((stay, hour, "pco2", 40 + rng.normal(0, 4), died, age, stay // 2))
    return pl.DataFrame(rows, schema=["stay", "hour", "feature", "value", "died", "age", "patient"], orient="row")


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path, menu_path = Path(folder) / "my.parquet", Path(folder) / "menu.yaml"
        table = make_table()
        table.write_parquet(path)
        menu_path.write_text(MENU)

        # What is in it? The same as `whichwhen data my.parquet --id stay --time hour --label died …` prints.
        spec = TableSpec(id="stay", time="hour", label="died", static=("age",), group="patient", menu=str(menu_path))
        print_table_report(describe_table(path, spec), console_on())

        # The same measurements with one step a row are the same data.
        wide = table.pivot("feature", index=["stay", "hour", "died", "age", "patient"], values="value")
        one, other = load_table(table, spec.model_copy(update={"menu": None})), load_table(wide, spec)
        print("features, long:", ", ".join(feature.name for feature in one.train.features))
        print("features, wide:", ", ".join(feature.name for feature in other.train.features))

        # The menu by itself …
        for order in load_menu(menu_path, one.train.features, free=("age",)).orders:
            print(f"  {order.name:<12}{'free' if order.free else f'{order.cost:g}':>5}  {', '.join(order.features)}")

        # … and everything that training takes: three splits, scaled, no patient in two of them.
        fields = spec.model_dump(exclude_defaults=True)
        data = load_dataset(str(path), **fields)
        print(f"{len(data.train)} series to train on, {len(data.validation)} to choose on, {len(data.test)} to test on")


if __name__ == "__main__":
    main()
