import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from builders import tiny_batch, tiny_policy
from whichwhen import keyed
from whichwhen.acquirers import RandomMasks
from whichwhen.budget import Unlimited
from whichwhen.rollout import Policy, inference, roll_out
from whichwhen.types import Allowance, Reveal, View


def wanted(masks, keys, times):
    """Which orders are wanted by each series at each step, ``[B, T, K]`` bool."""
    state, found, size = masks.init(keys), [], len(keys)
    zeros = torch.zeros(size, masks.n_orders)
    for t in times:
        reveal = Reveal(zeros, zeros, zeros, torch.full((size,), t - 1))
        allowance = Allowance(torch.ones(size), torch.ones(size, masks.n_orders, dtype=torch.bool))
        scores, state = masks.step(View(reveal, allowance, torch.zeros(size, 1), torch.full((size,), t)), state)
        found.append(scores.values > -torch.inf)
    return torch.stack(found, 1)


def keys_of(count, seed=0):
    return torch.from_numpy(keyed.series_keys(seed, "train", np.arange(count)))


def test_shares_are_uniform_over_the_series():
    shares = wanted(RandomMasks(40), keys_of(3000), range(25)).double().mean((1, 2))
    assert torch.histc(shares, 10, 0, 1).div(3000).allclose(torch.tensor(0.1, dtype=torch.double), atol=0.025)
    # the distribution function of a uniform number, up to the chance of the sample and of 1000 draws per series
    rank = (torch.arange(3000) + 0.5) / 3000
    assert (shares.sort().values - rank).abs().max() < 0.04


def test_a_series_keeps_its_share_from_step_to_step_with_other_orders():
    found = wanted(RandomMasks(200), keys_of(400), range(2)).double()
    early, late = found[:, 0], found[:, 1]
    assert torch.corrcoef(torch.stack([early.mean(1), late.mean(1)]))[0, 1] > 0.95
    share = found.mean((1, 2))
    both = (early * late).mean(1)
    assert (both - share**2).abs().mean() < 0.03  # independent, given the share
    assert not torch.equal(early, late)


def test_every_order_is_wanted_equally_often():
    often = wanted(RandomMasks(10), keys_of(3000), range(5)).double().mean((0, 1))
    assert often.allclose(torch.tensor(0.5, dtype=torch.double), atol=0.04)


@given(st.permutations(range(12)), st.integers(1, 12), st.integers(0, 3))
@settings(deadline=None, max_examples=30)
def test_what_a_series_wants_does_not_depend_on_its_batch(order, size, seed):
    masks, keys = RandomMasks(6, seed), keys_of(12)
    whole = wanted(masks, keys, range(4))
    rows = torch.tensor(order[:size])
    assert torch.equal(wanted(masks, keys[rows], range(4)), whole[rows])
    assert torch.equal(wanted(masks, keys, [3])[:, 0], whole[:, 3])


def test_other_seeds_and_other_keys_want_other_orders():
    one = wanted(RandomMasks(6, 0), keys_of(12), range(4))
    assert not torch.equal(one, wanted(RandomMasks(6, 1), keys_of(12), range(4)))
    assert not torch.equal(one, wanted(RandomMasks(6, 0), keys_of(12, 1), range(4)))


@pytest.mark.parametrize("predictor", ["conv", "lstm"])
def test_all_that_is_wanted_is_requested_where_the_budget_has_no_limit(predictor):
    policy, batch = tiny_policy(predictor=predictor), tiny_batch()
    masks = RandomMasks(5)
    policy = Policy(policy.menu, Unlimited(), masks, policy.predictor)
    with inference(policy):
        record = roll_out(policy, batch)
    expected = wanted(masks, batch.keys, range(batch.steps)) & record.valid.unsqueeze(-1)
    assert torch.equal(record.selections.request > 0, expected)
    assert torch.equal(record.cost, expected.sum(-1).float())


def test_random_masks_have_nothing_to_learn():
    assert list(RandomMasks(5).parameters()) == []
    assert not RandomMasks(5).learns
