import functools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support import data_folder, ts_rows, ts_text, write_archive
from whichwhen.data import Dataset, SeriesSet, load_dataset
from whichwhen.data.splits import split_validation
from whichwhen.errors import DataError
from whichwhen.menu import Feature


def make_set(labels: list[int], groups: list[int] | None = None) -> SeriesSet:
    """Series that all differ, unless groups say otherwise."""
    series = [np.full((2, 1), i) for i in range(len(labels))]
    return SeriesSet.from_list(
        series, np.array(labels), [Feature("x")], groups=np.arange(len(labels)) if groups is None else np.array(groups)
    )


def assert_sound(whole: SeriesSet, kept: SeriesSet, held: SeriesSet) -> None:
    assert sorted([*kept.ids, *held.ids]) == sorted(whole.ids)
    assert set(kept.labels) == set(held.labels) == set(whole.labels)
    assert not set(kept.groups) & set(held.groups)


@settings(max_examples=80, deadline=None)
@given(st.lists(st.integers(2, 12), min_size=2, max_size=5), st.floats(0.05, 0.95), st.integers(0, 3))
def test_two_of_each_class_are_enough_or_it_says_so(counts: list[int], share: float, seed: int) -> None:
    whole = make_set(np.repeat(np.arange(len(counts)), counts).tolist())
    try:
        kept, held = split_validation(whole, share, seed)
    except DataError:
        return
    assert_sound(whole, kept, held)


@settings(max_examples=80, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 7)), min_size=4, max_size=40), st.floats(0.05, 0.95))
def test_groups_are_kept_together_or_it_says_so(rows: list[tuple[int, int]], share: float) -> None:
    whole = make_set([label for label, _ in rows], [group for _, group in rows])
    try:
        kept, held = split_validation(whole, share, 0)
    except DataError:
        return
    assert_sound(whole, kept, held)


@pytest.mark.parametrize("share", [0.1, 0.2, 0.5, 0.8])
def test_the_share_is_what_was_asked_for(share: float) -> None:
    whole = make_set([0, 1] * 100)
    kept, held = split_validation(whole, share, 0)
    assert len(held) == round(200 * share)
    assert_sound(whole, kept, held)
    assert abs((held.labels == 0).mean() - 0.5) < 0.05


@pytest.mark.parametrize("share", [0.1, 0.2, 0.5, 0.8])
def test_the_share_is_about_right_with_groups_too(share: float) -> None:
    whole = make_set([0, 1] * 100, [i // 4 for i in range(200)])
    kept, held = split_validation(whole, share, 0)
    assert abs(len(held) / 200 - share) < 0.1
    assert_sound(whole, kept, held)


@pytest.mark.parametrize("groups", [None, [i // 2 for i in range(200)]], ids=["rows", "groups"])
def test_both_sides_have_the_classes_in_the_same_shares(groups: list[int] | None) -> None:
    whole = make_set([0] * 160 + [1] * 40, groups)
    for seed in range(5):
        held = split_validation(whole, 0.2, seed)[1]
        assert np.abs(np.bincount(held.labels) - [32, 8]).max() <= 2


def test_one_copy_among_few_series_is_no_obstacle() -> None:
    kept, held = split_validation(whole := make_set([0, 1] * 4, [0, 1, 2, 3, 4, 5, 6, 5]), 0.2, 0)
    assert_sound(whole, kept, held)


def test_the_seed_alone_decides() -> None:
    whole = make_set([0, 1] * 50)
    first, again, other = (split_validation(whole, 0.2, seed)[1].ids.tolist() for seed in (0, 0, 1))
    assert first == again
    assert first != other


def test_the_split_does_not_look_at_values() -> None:
    labels = np.array([0, 1] * 20)
    one, other = (
        SeriesSet.from_list(
            [np.random.default_rng(seed + i).random((2, 1)) for i in range(40)], labels, [Feature("x")], groups=np.arange(40)
        )
        for seed in (0, 100)
    )
    assert split_validation(one, 0.2, 0)[1].ids.tolist() == split_validation(other, 0.2, 0)[1].ids.tolist()


def test_exact_copies_stay_on_one_side() -> None:
    rng = np.random.default_rng(0)
    originals = [rng.random((3, 2)) for _ in range(20)]
    series = [one for one in originals for _ in range(3)]
    labels = np.repeat(np.arange(20) % 2, 3)
    features = [Feature("a"), Feature("b")]
    whole = SeriesSet.from_list(series, labels, features)
    for seed in range(5):
        kept, held = split_validation(whole, 0.3, seed)
        mine = {kept.series(i).tobytes() for i in range(len(kept))}
        theirs = {held.series(i).tobytes() for i in range(len(held))}
        assert len(mine | theirs) == 20
        assert not mine & theirs


def test_copies_in_a_file_stay_on_one_side(tmp_path) -> None:
    rows = ts_rows(count=30)
    folder = write_archive(tmp_path, ts_text([*rows, *rows]), ts_text(rows))
    data = load_dataset("ucr:Own", folder=folder)
    assert not set(data.train.ids % 30) & set(data.validation.ids % 30)
    assert len(data.train) + len(data.validation) == 60


@pytest.mark.parametrize(
    ("labels", "share"), [([0, 0, 0, 1], 0.2), ([0, 1] * 10, 0.01)], ids=["a class of one", "less than one series"]
)
def test_too_little_data_is_refused_with_numbers(labels: list[int], share: float) -> None:
    with pytest.raises(DataError, match=rf"{len(labels)} in all.*{share:g}.*--validation"):
        split_validation(make_set(labels), share, 0)


def test_a_class_of_one_group_is_refused() -> None:
    with pytest.raises(DataError, match="every class in at least two groups"):
        split_validation(make_set([0] * 6 + [1] * 6, [0, 1, 2, 3, 4, 5] + [6] * 6), 0.2, 0)


@functools.cache
def digits() -> Dataset:
    return load_dataset("spoken-arabic-digits", folder=data_folder("SpokenArabicDigits"))


def test_validation_of_digits_holds_out_whole_speakers() -> None:
    data = digits()
    speakers = data.validation.ids % 660 // 10
    for speaker in np.unique(speakers):
        said = data.validation.labels[speakers == speaker]
        assert np.bincount(said, minlength=10).tolist() == [10] * 10
    assert not set(speakers) & set(data.train.ids % 660 // 10)
    assert abs(len(data.validation) / 6600 - 0.2) < 0.02


def test_no_copy_among_the_digits_is_on_both_sides() -> None:
    data = digits()
    sides = [{part.series(i).tobytes() for i in range(len(part))} for part in (data.train, data.validation)]
    assert not sides[0] & sides[1]
