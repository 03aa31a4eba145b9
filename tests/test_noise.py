import numpy as np
import pytest
import torch
from scipy import stats

from whichwhen.noise import NoisePool, gumbel, logistic


@pytest.fixture(scope="module")
def windows():
    """As training takes them: one window per step, from a pool about as large as all of them together."""
    pool = NoisePool(0, 40 * 50 * 8)
    return np.stack([gumbel((50, 8), torch.zeros(1), pool).double().numpy() for _ in range(40)])


def test_a_window_has_the_gumbel_distribution():
    pool = NoisePool(1, 1 << 16)
    assert stats.kstest(pool.take((30_000,)).double().numpy(), "gumbel_r").pvalue > 1e-3


def test_logistic_noise_is_the_difference_of_two_gumbel_draws_from_a_pool_or_a_generator():
    drawn = (
        NoisePool(1, 1 << 16).take((30_000,), "logistic"),
        logistic((30_000,), torch.zeros(1), torch.Generator().manual_seed(2)),
        gumbel((30_000,), torch.zeros(1), torch.Generator().manual_seed(3))
        - gumbel((30_000,), torch.zeros(1), torch.Generator().manual_seed(4)),
    )
    for noise in drawn:
        assert torch.isfinite(noise).all()
        assert stats.kstest(noise.double().numpy(), "logistic").pvalue > 1e-3


def test_a_large_window_of_logistic_noise_is_drawn_afresh():
    pool = NoisePool(0, 1)
    large = pool.take((1 << 15, 4), "logistic")
    assert not torch.equal(large, pool.take((1 << 15, 4), "logistic"))
    assert stats.kstest(large[:, 0].double().numpy(), "logistic").pvalue > 1e-3


def test_series_and_orders_of_a_window_are_independent(windows):
    for axis in (1, 2):
        one, next_ = (np.moveaxis(windows, axis, 0)[part].ravel() for part in (slice(None, -1), slice(1, None)))
        assert abs(np.corrcoef(one, next_)[0, 1]) < 4 / np.sqrt(len(one))


def test_an_order_gets_other_noise_at_each_step(windows):
    one, next_ = windows[:-1].ravel(), windows[1:].ravel()
    assert abs(np.corrcoef(one, next_)[0, 1]) < 4 / np.sqrt(len(one))
    assert len(np.unique(windows[:, 0, 0])) == 40


def test_the_highest_of_equal_scores_is_each_order_equally_often(windows):
    winners = np.bincount(windows.argmax(-1).ravel(), minlength=8)
    assert stats.chisquare(winners).pvalue > 1e-3


def test_a_pool_depends_on_its_seed_alone():
    torch.manual_seed(0)
    first = NoisePool(5, 10).take((4, 3))
    torch.manual_seed(1)
    assert torch.equal(first, NoisePool(5, 10).take((4, 3)))
    assert not torch.equal(first, NoisePool(6, 10).take((4, 3)))


def test_what_was_taken_does_not_change_when_more_is_taken():
    pool = NoisePool(2, 100)
    first = pool.take((10, 10))
    before = first.clone()
    for _ in range(20):
        pool.take((10, 10))
    assert torch.equal(first, before)
