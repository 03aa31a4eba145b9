import pytest
import torch

from whichwhen.timecode import TimeCode


def test_without_frequencies_it_is_the_share_of_the_horizon():
    assert TimeCode(4, 0)(torch.tensor([0, 1, 4])).tolist() == [[0.0], [0.25], [1.0]]


@pytest.mark.parametrize("frequencies", [1, 3, 8])
@pytest.mark.parametrize("horizon", [2, 7, 100])
def test_no_two_steps_within_the_horizon_look_alike(horizon, frequencies):
    code = TimeCode(horizon, frequencies)
    found = code(torch.arange(horizon))
    assert found.shape == (horizon, code.width)
    gaps = torch.cdist(found, found) + 10 * torch.eye(horizon)
    assert gaps.min() > 1e-3


def test_it_does_not_depend_on_the_company():
    code, times = TimeCode(9, 3), torch.tensor([[0, 5], [8, 2]])
    assert torch.equal(code(times)[1, 0], code(torch.tensor([8]))[0])


@pytest.mark.parametrize("frequencies", [0, 3])
def test_steps_after_four_horizons_count_as_the_last_of_them(frequencies):
    code = TimeCode(5, frequencies)
    last = code(torch.tensor([20]))
    assert torch.equal(code(torch.tensor([21])), last)
    assert torch.equal(code(torch.tensor([1000])), last)
    assert not torch.equal(code(torch.tensor([19])), last)


def test_sines_and_cosines_of_the_share_of_the_horizon():
    found = TimeCode(8, 2)(torch.tensor([2]))[0]
    quarter = torch.tensor(torch.pi / 4)
    expected = [quarter.sin(), (2 * quarter).sin(), quarter.cos(), (2 * quarter).cos()]
    assert torch.allclose(found, torch.stack(expected), atol=1e-6)


def test_the_code_is_no_weight():
    assert not TimeCode(5, 3).state_dict()
