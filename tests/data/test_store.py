import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from whichwhen.data import Dataset, Scaler, SeriesSet
from whichwhen.errors import DataError
from whichwhen.menu import Feature
from whichwhen.provenance import Provenance

lengths = st.lists(st.integers(1, 6), min_size=1, max_size=7)
often = settings(max_examples=40, deadline=None)


def make_set(lengths: list[int], n_features: int = 3, seed: int = 0, source: str = "train", missing: float = 0.0) -> SeriesSet:
    rng = np.random.default_rng(seed)
    series = [rng.standard_normal((length, n_features)) for length in lengths]
    for one in series:
        one[rng.random(one.shape) < missing] = np.nan
    return SeriesSet.from_list(series, rng.integers(0, 3, len(lengths)), features(n_features), source)


def features(count: int) -> list[Feature]:
    return [Feature(f"x{i}") for i in range(count)]


@often
@given(lengths, st.integers(1, 4))
def test_series_come_out_as_they_went_in(lengths: list[int], n_features: int) -> None:
    rng = np.random.default_rng(1)
    series = [rng.standard_normal((length, n_features)).astype(np.float32) for length in lengths]
    stored = SeriesSet.from_list(series, np.arange(len(series)), features(n_features))
    assert len(stored) == len(series)
    assert stored.lengths.tolist() == lengths
    for i, one in enumerate(series):
        np.testing.assert_array_equal(stored.series(i), one)


@often
@given(lengths, st.data())
def test_padded_holds_each_series_and_then_nan(lengths: list[int], data: st.DataObject) -> None:
    stored = make_set(lengths)
    rows = np.array(data.draw(st.lists(st.integers(0, len(lengths) - 1), min_size=1, max_size=8)))
    steps = data.draw(st.none() | st.integers(1, 9))
    padded = stored.padded(rows, steps)
    assert padded.shape == (len(rows), steps or max(lengths[i] for i in rows), 3)
    for place, i in enumerate(rows.tolist()):
        known = min(lengths[i], padded.shape[1])
        np.testing.assert_array_equal(padded[place, :known], stored.series(i)[:known])
        assert np.isnan(padded[place, known:]).all()


@often
@given(lengths, st.data())
def test_taken_series_keep_values_labels_ids_and_groups(lengths: list[int], data: st.DataObject) -> None:
    stored = make_set(lengths)
    rows = np.array(data.draw(st.lists(st.integers(0, len(lengths) - 1), max_size=8)), dtype=int)
    taken = stored.take(rows)
    assert taken.lengths.tolist() == [lengths[i] for i in rows]
    for name in ("labels", "ids", "groups"):
        np.testing.assert_array_equal(getattr(taken, name), getattr(stored, name)[rows])
    for place, i in enumerate(rows.tolist()):
        np.testing.assert_array_equal(taken.series(place), stored.series(i))


@often
@given(lengths, st.floats(0, 0.6))
def test_hindsight_knows_what_was_observed_and_zeroes_the_rest(lengths: list[int], missing: float) -> None:
    stored = make_set(lengths, missing=missing)
    before = stored.values.copy()
    known = stored.hindsight(np.arange(len(lengths)))
    batch = known.batch
    assert batch.lengths.tolist() == lengths
    assert known.labels.tolist() == stored.labels.tolist()
    for i, length in enumerate(lengths):
        there = ~np.isnan(stored.series(i))
        np.testing.assert_array_equal(batch.observed[i, :length].numpy(), there)
        np.testing.assert_array_equal(batch.values[i, :length].numpy(), np.where(there, stored.series(i), 0))
        assert not batch.observed[i, length:].any()
        assert not batch.values[i, length:].any()
    np.testing.assert_array_equal(stored.values, before)


@often
@given(lengths, st.data())
def test_keys_stay_with_their_series(lengths: list[int], data: st.DataObject) -> None:
    stored = make_set(lengths)
    rows = np.array(data.draw(st.lists(st.integers(0, len(lengths) - 1), min_size=1, max_size=8)))
    salt = data.draw(st.none() | st.integers(0, 5))
    everyone = stored.hindsight(np.arange(len(lengths)), salt=salt).batch.keys
    assert torch.equal(stored.hindsight(rows, salt=salt).batch.keys, everyone[rows])
    assert torch.equal(stored.take(rows).hindsight(np.arange(len(rows)), salt=salt).batch.keys, everyone[rows])
    assert len(set(everyone.tolist())) == len(lengths)


def test_salt_source_and_seed_each_change_every_key() -> None:
    rows = np.arange(20)
    plain = make_set([2] * 20)
    test = make_set([2] * 20, source="test")
    seeded = SeriesSet.from_list([plain.series(i) for i in range(20)], plain.labels, plain.features, seed=1)
    variants = [
        plain.hindsight(rows),
        plain.hindsight(rows, salt=1),
        plain.hindsight(rows, salt=2),
        test.hindsight(rows),
        seeded.hindsight(rows),
    ]
    keys = [key for variant in variants for key in variant.batch.keys.tolist()]
    assert len(set(keys)) == len(keys)


def test_keys_do_not_depend_on_values_or_labels() -> None:
    one, other = make_set([2, 3], seed=0), make_set([2, 3], seed=9)
    assert torch.equal(one.hindsight(np.arange(2)).batch.keys, other.hindsight(np.arange(2)).batch.keys)


def test_steps_start_again_with_each_series() -> None:
    assert make_set([3, 1, 2]).steps.tolist() == [0, 1, 2, 0, 0, 1]


def test_only_exact_copies_share_a_group() -> None:
    one = np.arange(6.0).reshape(3, 2)
    near = one.copy()
    near[0, 0] = 1e-6
    stored = SeriesSet.from_list([one, near, one.copy(), one[:2], near], np.zeros(5), features(2))
    assert stored.groups[0] == stored.groups[2]
    assert stored.groups[1] == stored.groups[4]
    assert len({stored.groups[0], stored.groups[1], stored.groups[3]}) == 3


def test_given_groups_are_kept() -> None:
    stored = SeriesSet.from_list([np.zeros((2, 1))] * 3, np.zeros(3), features(1), groups=np.array([7, 8, 7]))
    assert stored.groups.tolist() == [7, 8, 7]


def test_scaler_gives_mean_zero_and_std_one() -> None:
    values = np.random.default_rng(0).normal([3, -50], [0.1, 20], (500, 2)).astype(np.float32)
    scaled = Scaler.fit(values).apply(values)
    np.testing.assert_allclose(scaled.mean(0, dtype=np.float64), 0, atol=1e-5)
    np.testing.assert_allclose(scaled.std(0, dtype=np.float64), 1, atol=1e-5)


def test_scaler_leaves_missing_values_out_and_missing() -> None:
    values = np.array([[1.0], [np.nan], [3.0]])
    scaler = Scaler.fit(values)
    assert scaler.mean.tolist() == [2.0]
    assert scaler.std.tolist() == [1.0]
    np.testing.assert_array_equal(scaler.apply(values), [[-1], [np.nan], [1]])


def test_scaler_leaves_a_feature_that_was_never_observed_as_it_is() -> None:
    scaler = Scaler.fit(np.array([[1.0, np.nan], [3.0, np.nan]]))
    assert (scaler.mean.tolist(), scaler.std.tolist()) == ([2.0, 0.0], [1.0, 1.0])


def test_a_constant_feature_is_only_centred() -> None:
    assert Scaler.fit(np.full((5, 1), 7.0)).apply(np.array([[7.0], [9.0]])).tolist() == [[0.0], [2.0]]


def test_a_long_table_is_scaled_as_its_rows_are() -> None:
    values = np.random.default_rng(0).normal(5, 3, (10000, 2)).astype(np.float32)
    scaler = Scaler.fit(values)
    whole = scaler.apply(values)
    assert whole.dtype == np.float32
    np.testing.assert_array_equal(whole[::500], [scaler.apply(row) for row in values[::500]])


def test_extended_scaler_leaves_new_columns_alone() -> None:
    scaler = Scaler(np.array([1.0]), np.array([2.0])).extend(2)
    assert scaler.apply(np.array([[5.0, 5.0, -5.0]])).tolist() == [[2.0, 5.0, -5.0]]


def test_unknown_split_is_refused_by_name() -> None:
    part = make_set([2, 2])
    data = Dataset("own", part, part, {"test": part}, ("0", "1"), Provenance.all_real(2, 3), 2, Scaler.identity(3))
    assert data.split("validation") is data.validation
    with pytest.raises(DataError, match=r"'tset'.*train, validation, test"):
        data.split("tset")


@often
@given(lengths, st.data())
def test_joined_series_are_those_of_both(lengths: list[int], data: st.DataObject) -> None:
    whole = make_set(lengths)
    cut = data.draw(st.integers(0, len(lengths)))
    first, second = whole.take(np.arange(cut)), whole.take(np.arange(cut, len(lengths)))
    joined = first.joined(second)
    for name in ("values", "offsets", "labels", "ids", "groups"):
        np.testing.assert_array_equal(getattr(joined, name), getattr(whole, name))
