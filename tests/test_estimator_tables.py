"""Data frames as X."""

import numpy as np
import polars as pl
import pytest

import whichwhen as ww
from whichwhen.errors import FeatureError, InputError, ParameterError

TABLE = {"id": "stay", "time": "hour", "label": "died", "group": "patient", "static": ("age",)}
QUICK = {"effort": 0.03, "batch_size": 8, "learning_rate": 0.02, "width": 16, "layers": 1, "random_state": 0}


def table(stays=30, seed=0):
    """Wide: the pulse tells who dies; half of the lactates are missing."""
    rng = np.random.default_rng(seed)
    rows = []
    for stay in range(stays):
        died, age = stay % 2, float(rng.integers(30, 90))
        for hour in range(int(rng.integers(3, 7))):
            lactate = rng.normal() if rng.random() < 0.5 else None
            rows.append((stay, hour, died, f"p{stay // 2}", age, 80 + 40 * died + rng.normal(), lactate))
    return pl.DataFrame(rows, schema=["stay", "hour", "died", "patient", "age", "pulse", "lactate"], orient="row")


def test_without_a_reader_of_tables_a_frame_is_refused_in_one_line(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "whichwhen.data.frames.parse", None)
    with pytest.raises(InputError, match=r"no reader \(whichwhen.data.frames\).*arrays \(series, features, time\)") as caught:
        ww.AcquisitionClassifier(table=TABLE).fit(table())
    assert "\n" not in str(caught.value)


@pytest.fixture(scope="module")
def fitted():
    pytest.importorskip("whichwhen.data.frames")
    return ww.AcquisitionClassifier(table=TABLE, **QUICK).fit(table())


def test_a_table_is_learned_from_and_answered(fitted):
    assert fitted.feature_names_in_.tolist() == ["pulse", "lactate", "age"]
    assert fitted.classes_.tolist() == [0, 1]
    assert fitted.score(table(seed=1)) > 0.9
    assert [order.free for order in fitted.menu_.orders] == [False, False, True]
    assert not fitted.acquire(table()).requested[:, 2].any()


def test_long_and_wide_rows_and_columns_in_any_order_and_pandas_are_the_same(fitted):
    wide = table(seed=1)
    shares = fitted.predict_proba(wide)
    assert shares.shape == (30, 2)
    index = ["stay", "hour", "died", "patient", "age"]
    long = wide.unpivot(["pulse", "lactate"], index=index, variable_name="feature", value_name="value")
    pandas = pytest.importorskip("pandas").DataFrame(wide.to_dict(as_series=False))
    for same in (long, wide.select(reversed(wide.columns)).reverse(), wide.lazy(), pandas):
        assert np.array_equal(fitted.predict_proba(same), shares)


def test_labels_groups_and_weights_need_not_be_there_for_predictions(fitted):
    wide = table(seed=1)
    assert np.array_equal(fitted.predict(wide.drop("died", "patient")), fitted.predict(wide))


def test_what_scikit_learn_can_split_says_the_same(fitted):
    found = fitted.read_table(table(seed=1))
    assert found.ids.tolist() == [str(i) for i in range(30)]
    assert found.names == ("pulse", "lactate", "age")
    assert found.labels.tolist() == [0, 1] * 15
    assert found.groups[:3].tolist() == ["p0", "p0", "p1"]
    assert np.array_equal(fitted.predict_proba(found.X), fitted.predict_proba(table(seed=1)))


def test_a_saved_one_still_reads_tables(fitted, tmp_path):
    again = ww.AcquisitionClassifier.load(fitted.save(tmp_path / "m"))
    assert np.array_equal(again.predict_proba(table(seed=1)), fitted.predict_proba(table(seed=1)))


def test_steps_are_as_wide_as_in_fit(fitted):
    every_second = table(seed=1).filter(pl.col("hour") % 2 == 0, pl.col("hour").max().over("stay") > 1)
    longest = int(every_second["hour"].max()) + 1
    assert fitted.acquire(every_second).requested.shape[2] == longest


def test_mistakes_are_told_in_a_line(fitted):
    with pytest.raises(FeatureError, match="no column 'pulse'"):
        fitted.predict(table().drop("pulse"))
    with pytest.raises(InputError, match="beside a table"):
        ww.AcquisitionClassifier(table=TABLE, **QUICK).fit(table(), np.zeros(30))
    with pytest.raises(ParameterError, match="menu in table"):
        ww.AcquisitionClassifier(table=TABLE | {"menu": "m.yaml"}, **QUICK).fit(table())
    with pytest.raises(ParameterError, match="idd"):
        ww.AcquisitionClassifier(table={"idd": "stay"}, **QUICK).fit(table())
    with pytest.raises(ParameterError, match="no table"):
        ww.AcquisitionClassifier().read_table(table())
