"""Dropout: its share, its mean, its gradient, and where its randomness comes from."""

import pytest
import torch

from whichwhen.predictors._dropout import dropout


@pytest.mark.parametrize("share", [0.01, 0.2, 0.5, 0.9])
def test_so_many_are_dropped_and_the_mean_stays(share):
    torch.manual_seed(0)
    out = dropout(torch.ones(100_003), share)
    assert (out == 0).float().mean().item() == pytest.approx(share, abs=0.01)
    assert out.mean().item() == pytest.approx(1, abs=0.03)
    assert len(out.unique()) == 2


def test_the_gradient_goes_where_the_value_went():
    x = torch.randn(7, 11, 3, requires_grad=True)
    out = dropout(x, 0.4)
    out.sum().backward()
    assert torch.equal(x.grad == 0, out == 0)
    assert torch.allclose(out, x * x.grad)


def test_it_follows_from_torch_s_seed_and_differs_from_call_to_call():
    x = torch.ones(1000)
    torch.manual_seed(5)
    one, other = dropout(x, 0.5), dropout(x, 0.5)
    torch.manual_seed(5)
    assert torch.equal(dropout(x, 0.5), one)
    assert not torch.equal(one, other)
    agree = (one == other).float().mean().item()
    assert agree == pytest.approx(0.5, abs=0.06)


def test_neighbours_are_dropped_independently():
    torch.manual_seed(0)
    kept = (dropout(torch.ones(100_000), 0.5) > 0).float() - 0.5
    for lag in (1, 2, 3, 4, 8, 16):
        assert abs(float((kept[lag:] * kept[:-lag]).mean() * 4)) < 0.02


def test_a_share_just_below_one_leaves_finite_numbers():
    assert torch.isfinite(dropout(torch.ones(1000), 0.999999)).all()
