import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from whichwhen import keyed

KEYS = st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=6)


def uniform(keys, times, count, seed=0):
    return keyed.uniform(torch.tensor(keys), torch.tensor(times), count, seed)


@settings(deadline=None, max_examples=60)
@given(keys=KEYS, time=st.integers(0, 10_000), count=st.integers(1, 8), seed=st.integers(0, 2**32))
def test_uniform_depends_on_seed_key_time_and_column_alone(keys, time, count, seed):
    together = uniform(keys, [time] * len(keys), count, seed)
    for i, key in enumerate(keys):
        alone = uniform([key], [time], count, seed)
        assert torch.equal(alone[0], together[i])
    wider = uniform(keys, [time] * len(keys), count + 3, seed)
    assert torch.equal(wider[:, :count], together)
    assert float(together.min()) > 0
    assert float(together.max()) < 1


def test_each_of_seed_key_time_and_column_matters():
    base = uniform([5, 6], [3, 3], 4, 1)
    assert not torch.equal(base, uniform([5, 6], [3, 3], 4, 2))
    assert not torch.equal(base, uniform([5, 6], [4, 4], 4, 1))
    assert not torch.equal(base[0], base[1])
    assert len(set(base[0].tolist())) == 4


def test_uniform_does_not_touch_torch_s_own_randomness():
    before = torch.get_rng_state()
    uniform([1], [1], 3)
    assert torch.equal(before, torch.get_rng_state())


def numbers():
    """Uniform numbers for consecutive keys, times and columns: the least random input there is. [key, time, column]"""
    keys = torch.arange(60)
    return torch.stack([keyed.uniform(keys, torch.full((60,), t), 20, seed=0) for t in range(30)], 1).double().numpy()


def test_numbers_of_consecutive_keys_look_uniform():
    found = numbers().ravel()
    assert stats.kstest(found, "uniform").pvalue > 1e-3
    assert abs(found.mean() - 0.5) < 4 * np.sqrt(1 / 12 / len(found))


def test_numbers_along_each_axis_look_independent():
    found = numbers()
    for axis in range(3):
        one, next_ = (np.moveaxis(found, axis, 0)[part].ravel() for part in (slice(None, -1), slice(1, None)))
        assert abs(np.corrcoef(one, next_)[0, 1]) < 4 / np.sqrt(len(one))


def test_every_column_is_the_largest_equally_often():
    winners = np.bincount(numbers().argmax(-1).ravel(), minlength=20)
    assert stats.chisquare(winners).pvalue > 1e-3


def test_keys_of_a_series_differ_between_seeds_splits_and_ids():
    ids = np.arange(1000)
    sets = [keyed.series_keys(seed, split, ids) for seed in (0, 1) for split in ("train", "test")]
    together = np.concatenate(sets)
    assert together.dtype == np.int64
    assert len(np.unique(together)) == len(together)


def test_a_series_has_the_same_key_in_any_company():
    together = keyed.series_keys(3, "train", np.arange(10))
    assert keyed.series_keys(3, "train", np.array([7]))[0] == together[7]
    assert np.array_equal(keyed.series_keys(3, "train", np.arange(10)[::-1].copy()), together[::-1])


def test_each_salt_gives_other_keys():
    keys = keyed.series_keys(0, "train", np.arange(100))
    salted = [keyed.salt_keys(keys, salt) for salt in (1, 2)]
    assert np.array_equal(salted[0], keyed.salt_keys(keys, 1))
    assert len(np.unique(np.concatenate([keys, *salted]))) == 300


def test_series_generators_depend_on_seed_purpose_split_and_id():
    def draw(*place):
        return keyed.series_rng(*place).integers(2**62)

    places = [(0, "fakes", "train", 5), (1, "fakes", "train", 5), (0, "x", "train", 5), (0, "fakes", "test", 5)]
    assert draw(*places[0]) == draw(*places[0])
    assert len({draw(*place) for place in [*places, (0, "fakes", "train", 6)]}) == 5


def test_stream_seeds_fit_torch_and_differ_by_place():
    seeds = {
        keyed.stream_seed(seed, purpose, epoch) for seed in range(3) for purpose in ("noise", "dropout") for epoch in range(3)
    }
    assert len(seeds) == 18
    assert all(0 <= seed < 2**63 for seed in seeds)
