from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support import data_folder
from whichwhen.data import SeriesSet, load_dataset
from whichwhen.data.fakes import add_fakes, gp_factor, make_fakes, provenance, real_start, shift
from whichwhen.errors import DataError
from whichwhen.menu import Feature

RANDOM_KINDS = ("noise", "gp")


def make_set(lengths: list[int], n_features: int = 1, source: str = "train") -> SeriesSet:
    series = [np.full((length, n_features), i, dtype=np.float32) for i, length in enumerate(lengths)]
    return SeriesSet.from_list(
        series, np.arange(len(lengths)) % 2, [Feature(f"x{i}") for i in range(n_features)], source, np.arange(len(lengths))
    )


def blocks(n_real: int, n_fakes: int, horizon: int, steps: int | None = None) -> list[int]:
    """The first real column at each step."""
    return real_start(np.arange(steps or horizon), n_real, n_fakes, horizon).tolist()


# where the real features stand


def test_the_papers_example_moves_by_thirds() -> None:
    assert blocks(10, 20, 50) == [0] * 16 + [10] * 16 + [20] * 18


def test_m_forda_with_30_fakes_stays_at_the_last_block_to_the_last_step() -> None:
    assert blocks(10, 30, 50) == [0] * 12 + [10] * 12 + [20] * 12 + [30] * 12 + [30] * 2


def test_digits_with_30_fakes_end_at_the_last_13_columns() -> None:
    assert blocks(13, 30, 93) == [0] * 28 + [13] * 28 + [26] * 28 + [30] * 9


def test_a_segment_lasts_at_least_one_step() -> None:
    assert blocks(1, 9, 4) == [0, 1, 2, 3]


def test_series_longer_than_the_horizon_stay_at_the_last_block() -> None:
    assert blocks(2, 4, 6, steps=10) == [0, 0, 2, 2, 4, 4, 4, 4, 4, 4]


shapes = st.tuples(st.integers(1, 6), st.integers(1, 9), st.integers(2, 40))


@settings(max_examples=100, deadline=None)
@given(shapes, st.integers(0, 10))
def test_real_columns_follow_the_written_rule(shape: tuple[int, int, int], beyond: int) -> None:
    n_real, n_fakes, horizon = shape
    truth = provenance(n_real, n_fakes, True, horizon + beyond, horizon).real
    segment = max(1, int(n_real * horizon / (n_real + n_fakes) + 1e-9))
    for step in range(horizon + beyond):
        first = (step // segment) * n_real
        if first + n_real > n_real + n_fakes:
            first = n_fakes
        assert np.flatnonzero(truth[step]).tolist() == list(range(first, first + n_real))


@settings(max_examples=60, deadline=None)
@given(shapes, st.lists(st.integers(1, 12), min_size=1, max_size=4))
def test_shifted_values_land_where_provenance_says(shape: tuple[int, int, int], lengths: list[int]) -> None:
    n_real, n_fakes, horizon = shape
    rng = np.random.default_rng(0)
    series = [rng.standard_normal((length, n_real + n_fakes)).astype(np.float32) for length in lengths]
    plain = SeriesSet.from_list(series, np.zeros(len(series)), [Feature(f"x{i}") for i in range(n_real + n_fakes)])
    moved = shift(plain, n_real, horizon)
    truth = provenance(n_real, n_fakes, True, max(lengths), horizon).real
    for i, before in enumerate(series):
        for step, (row, after) in enumerate(zip(before, moved.series(i), strict=True)):
            assert after[truth[step]].tolist() == row[:n_real].tolist()
            assert after[~truth[step]].tolist() == row[n_real:].tolist()


def test_shifted_columns_lose_the_names_that_no_longer_fit() -> None:
    names = [feature.name for feature in shift(add_fakes(make_set([5]), "zeros", 2, 0), 1, 5).features]
    assert names == ["place0", "place1", "place2"]


def test_without_shift_the_first_columns_are_real() -> None:
    assert provenance(2, 3, False, 4, 4).real.tolist() == [[True, True, False, False, False]] * 4


def test_shift_needs_fakes() -> None:
    with pytest.raises(DataError, match="at least one fake"):
        shift(make_set([3], n_features=2), 2, 3)


# what the fakes are


@pytest.mark.parametrize("kind", ["zeros", "noise", "gp"])
def test_fakes_come_after_the_untouched_real_columns(kind: str) -> None:
    plain = make_set([3, 5], n_features=2)
    wide = add_fakes(plain, kind, 4, 0)
    np.testing.assert_array_equal(wide.values[:, :2], plain.values)
    assert [feature.name for feature in wide.features] == ["x0", "x1", "fake0", "fake1", "fake2", "fake3"]
    assert wide.values.shape == (8, 6)
    assert wide.values.dtype == np.float32


def test_no_fakes_change_nothing() -> None:
    plain = make_set([3, 5])
    assert add_fakes(plain, "none", 4, 0) is plain


def test_zeros_are_zeros() -> None:
    assert not make_fakes(make_set([3, 5]), "zeros", 4, 0).any()


def test_noise_is_white_with_std_half() -> None:
    noise = make_fakes(make_set([50] * 200), "noise", 5, 0).reshape(200, 50, 5).astype(np.float64)
    assert abs(noise.mean()) < 0.01
    assert abs(noise.std() - 0.5) < 0.01
    assert abs((noise[:, 1:] * noise[:, :-1]).mean()) < 0.01
    assert abs((noise[..., 0] * noise[..., 1]).mean()) < 0.02


def closed_form(steps: int) -> np.ndarray:
    gap = np.subtract.outer(np.arange(steps), np.arange(steps))
    return 0.5 * np.exp(-(gap**2) / (2 * 1.5**2))


def test_gp_factor_is_that_of_the_closed_form() -> None:
    factor = gp_factor(30).astype(np.float64)
    np.testing.assert_allclose(factor @ factor.T, closed_form(30), atol=1e-5)
    assert not np.triu(factor, 1).any()


def test_gp_samples_have_the_closed_forms_covariance() -> None:
    samples = make_fakes(make_set([8] * 4000), "gp", 5, 0).reshape(4000, 8, 5).astype(np.float64)
    flat = samples.transpose(0, 2, 1).reshape(-1, 8)
    assert np.abs(flat.mean(0)).max() < 0.02
    np.testing.assert_allclose(flat.T @ flat / len(flat), closed_form(8), atol=0.02)


def test_gp_fakes_are_independent_between_features_and_series() -> None:
    samples = make_fakes(make_set([8] * 4000), "gp", 2, 0).reshape(4000, 8, 2).astype(np.float64)
    assert np.abs(samples[..., 0].T @ samples[..., 1] / 4000).max() < 0.05
    assert np.abs(samples[1:, :, 0].T @ samples[:-1, :, 0] / 4000).max() < 0.05


def test_a_shorter_series_has_the_start_of_the_same_process() -> None:
    np.testing.assert_allclose(gp_factor(40)[:15, :15], gp_factor(15), atol=1e-6)
    short, long = make_fakes(make_set([6]), "gp", 1, 0), make_fakes(make_set([11]), "gp", 1, 0)
    np.testing.assert_allclose(long[:6], short, atol=1e-6)


# what they depend on


@pytest.mark.parametrize("kind", RANDOM_KINDS)
def test_fakes_do_not_depend_on_labels_or_values(kind: str) -> None:
    plain = make_set([4, 6, 5])
    other = replace(plain, labels=plain.labels[::-1].copy(), values=plain.values + 3)
    np.testing.assert_array_equal(make_fakes(plain, kind, 3, 0), make_fakes(other, kind, 3, 0))


@pytest.mark.parametrize("kind", RANDOM_KINDS)
@settings(max_examples=25, deadline=None)
@given(lengths=st.lists(st.integers(2, 20), min_size=1, max_size=6), data=st.data())
def test_a_series_gets_the_same_fakes_alone_or_in_any_company(kind: str, lengths: list[int], data: st.DataObject) -> None:
    whole = make_set(lengths)
    everyone = add_fakes(whole, kind, 3, 0)
    rows = np.array(data.draw(st.lists(st.integers(0, len(lengths) - 1), min_size=1, max_size=6)))
    some = add_fakes(whole.take(rows), kind, 3, 0)
    for place, i in enumerate(rows.tolist()):
        np.testing.assert_allclose(some.series(place), everyone.series(i), atol=1e-6, rtol=0)


@pytest.mark.parametrize("kind", RANDOM_KINDS)
def test_further_fakes_leave_the_first_ones_as_they_were(kind: str) -> None:
    some = make_set([4, 9, 30])
    np.testing.assert_allclose(make_fakes(some, kind, 40, 0)[:, :3], make_fakes(some, kind, 3, 0), atol=1e-6, rtol=0)


@pytest.mark.parametrize("kind", RANDOM_KINDS)
def test_splits_seeds_and_series_have_fakes_of_their_own(kind: str) -> None:
    lengths = [30] * 300
    train = make_fakes(make_set(lengths), kind, 1, 0).reshape(300, 30)
    others = (
        make_fakes(make_set(lengths, source="test"), kind, 1, 0).reshape(300, 30),
        make_fakes(make_set(lengths), kind, 1, 1).reshape(300, 30),
        np.roll(train, 1, axis=0),
    )
    for other in others:
        assert not (train == other).any()
        assert abs(np.corrcoef(train.ravel(), other.ravel())[0, 1]) < 0.05


@pytest.mark.parametrize("kind", RANDOM_KINDS)
def test_fakes_of_real_data_tell_nothing_about_the_label(kind: str) -> None:
    data = load_dataset("japanese-vowels", fakes=kind, n_fakes=20)
    for part in (data.train, data.test):
        means = np.stack([part.series(i)[:7, 12:].mean(0) for i in range(len(part))])
        spread = means.std(0) / np.sqrt(np.bincount(part.labels).min())
        per_class = np.stack([means[part.labels == c].mean(0) for c in range(9)])
        assert np.abs((per_class - means.mean(0)) / spread).max() < 4.5


def test_fakes_do_not_depend_on_who_is_held_out() -> None:
    def by_id(share: float) -> dict[int, np.ndarray]:
        data = load_dataset("japanese-vowels", fakes="noise", n_fakes=2, validation=share)
        return {int(part.ids[i]): part.series(i)[:, 12:] for part in (data.train, data.validation) for i in range(len(part))}

    few, many = by_id(0.1), by_id(0.5)
    assert few.keys() == many.keys()
    for i, fakes in few.items():
        np.testing.assert_array_equal(fakes, many[i])


def test_thirty_gp_fakes_for_all_spoken_digits() -> None:
    data = load_dataset("spoken-arabic-digits", folder=data_folder("SpokenArabicDigits"), fakes="gp", n_fakes=30, shift=True)
    for part in (data.train, data.validation, data.test):
        assert part.values.shape[1] == 43
        assert np.isfinite(part.values).all()
    last = data.provenance.real[-1]
    assert np.flatnonzero(last).tolist() == list(range(30, 43))
