import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from whichwhen.checks import step_through
from whichwhen.predictors import ConvPredictor, LSTMPredictor, make_predictor
from whichwhen.predictors.lstm import by_group
from whichwhen.specs import PredictorSpec, preset_spec
from whichwhen.types import Reveal, tree_map

KINDS = {
    "conv": PredictorSpec(kind="conv", width=8, layers=3, dropout=0.0, time_features=3),
    "conv without time": PredictorSpec(kind="conv", width=8, layers=1, dropout=0.0, time_features=0),
    "lstm": PredictorSpec(kind="lstm", width=8, layers=2, head=4, dropout=0.0, time_features=2),
    "lstm without head": PredictorSpec(kind="lstm", width=8, layers=1, head=0, dropout=0.0, time_features=0),
    "paper": preset_spec("paper", "m-forda").predictor,
}
LENGTHS = st.lists(st.integers(1, 12), min_size=1, max_size=5)


def make(kind, n_features=3, n_classes=4, horizon=10):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return make_predictor(KINDS[kind], n_features, n_classes, horizon).eval()


def random_reveals(size, steps, n_features=3, seed=0):
    generator = torch.Generator().manual_seed(seed)
    mask = (torch.rand(size, steps, n_features, generator=generator) < 0.5).float()
    values = torch.randn(size, steps, n_features, generator=generator) * mask
    return Reveal(values, mask, torch.zeros_like(mask), torch.arange(steps).expand(size, steps))


def by_steps(predictor, reveals):
    """Logits and contexts of the step path."""
    _, state = predictor.init(len(reveals.values))
    found = []
    for t in range(reveals.values.shape[1]):
        logits, context, state = predictor.step(tree_map(lambda part, t=t: part[:, t], reveals), state)
        found.append((logits, context))
    return tuple(torch.stack(part, 1) for part in zip(*found, strict=True))


@pytest.mark.parametrize("kind", KINDS)
@settings(deadline=None, max_examples=15)
@given(lengths=LENGTHS)
@torch.no_grad()
def test_step_path_and_sequence_path_agree(kind, lengths):
    predictor, steps = make(kind), max(lengths)
    reveals = random_reveals(len(lengths), steps)
    logits, context = predictor.sequence(reveals, torch.tensor(lengths))
    stepped = by_steps(predictor, reveals)
    assert logits.shape == (len(lengths), steps, 4)
    assert context.shape == (len(lengths), steps, predictor.context_size)
    for i, length in enumerate(lengths):
        assert torch.allclose(logits[i, :length], stepped[0][i, :length], atol=1e-5)
        assert torch.allclose(context[i, :length], stepped[1][i, :length], atol=1e-5)
        assert not logits[i, length:].any()
        assert not context[i, length:].any()


@pytest.mark.parametrize("kind", ["conv", "lstm"])
@torch.no_grad()
def test_the_paths_agree_over_a_long_series(kind):
    predictor, reveals = make(kind, horizon=300), random_reveals(2, 300)
    logits, _ = predictor.sequence(reveals, torch.tensor([300, 300]))
    assert torch.allclose(logits, step_through(predictor, reveals), atol=1e-5)


@pytest.mark.parametrize("kind", ["conv", "lstm"])
def test_the_paths_have_the_same_gradient(kind):
    predictor, reveals, lengths = make(kind), random_reveals(3, 6), torch.tensor([6, 6, 6])
    weights = torch.randn(3, 6, 4, generator=torch.Generator().manual_seed(1))
    gradients = []
    for path in (lambda reveals: predictor.sequence(reveals, lengths)[0], lambda reveals: step_through(predictor, reveals)):
        mask = reveals.mask.clone().requires_grad_()
        loss = (path(Reveal(reveals.values, mask, reveals.age, reveals.time)) * weights).sum()
        gradients.append(torch.autograd.grad(loss, [mask, *predictor.parameters()]))
    for one, other in zip(*gradients, strict=True):
        assert torch.allclose(one, other, atol=1e-4)
    assert gradients[0][0].abs().max() > 0


@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_no_step_looks_ahead_and_no_series_at_another(kind):
    predictor, reveals, lengths = make(kind), random_reveals(3, 8), torch.tensor([8, 8, 8])
    before, _ = predictor.sequence(reveals, lengths)
    later = reveals.values.clone()
    later[:, 5:] += 100
    after, _ = predictor.sequence(Reveal(later, reveals.mask, reveals.age, reveals.time), lengths)
    assert torch.allclose(before[:, :5], after[:, :5], atol=1e-6)
    assert not torch.allclose(before[:, 5:], after[:, 5:], atol=1e-3)
    other = reveals.values.clone()
    other[0] += 100
    after, _ = predictor.sequence(Reveal(other, reveals.mask, reveals.age, reveals.time), lengths)
    assert torch.allclose(before[1:], after[1:], atol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_a_measured_zero_differs_from_nothing_measured(kind):
    predictor, nothing = make(kind), random_reveals(1, 4)
    zeros = torch.zeros_like(nothing.values)
    one, _ = predictor.sequence(Reveal(zeros, zeros, zeros, nothing.time), torch.tensor([4]))
    other, _ = predictor.sequence(Reveal(zeros, zeros + 1, zeros, nothing.time), torch.tensor([4]))
    assert (one != other).all()


@pytest.mark.parametrize(("kind", "sees"), [("conv", True), ("lstm", True), ("paper", False), ("conv without time", False)])
@torch.no_grad()
def test_time_is_an_input_only_where_it_is_asked_for(kind, sees):
    predictor, reveals = make(kind), random_reveals(1, 4)
    moved = Reveal(reveals.values, reveals.mask, reveals.age, reveals.time + 3)
    one, other = (predictor.sequence(part, torch.tensor([4]))[0] for part in (reveals, moved))
    assert torch.equal(one, other) != sees


@torch.no_grad()
def test_conv_context_and_logits_are_those_of_the_mean_over_the_steps_so_far():
    predictor, reveals = make("conv"), random_reveals(2, 9)
    logits, context = predictor.sequence(reveals, torch.tensor([9, 9]))
    hidden, mean = context.chunk(2, -1)
    for t in range(9):
        assert torch.allclose(mean[:, t], hidden[:, : t + 1].mean(1), atol=1e-5)
    assert torch.allclose(logits, predictor.logits(mean), atol=1e-5)


@torch.no_grad()
def test_lstm_is_torch_s_lstm():
    predictor, reveals = make("paper"), random_reveals(2, 6)
    out = predictor.lstm(torch.cat([reveals.values, reveals.mask], -1).transpose(0, 1))[0].transpose(0, 1)
    logits, context = predictor.sequence(reveals, torch.tensor([6, 6]))
    assert torch.allclose(context, out, atol=1e-6)
    assert torch.allclose(logits, predictor.logits(torch.relu(predictor.head[0](out))), atol=1e-6)


def test_the_paper_s_sizes():
    forda, digits = (preset_spec("paper", name).predictor for name in ("m-forda", "spoken-arabic-digits"))
    for spec, layers in ((forda, 2), (digits, 3)):
        predictor = make_predictor(spec, 40, 2, 50)
        assert isinstance(predictor, LSTMPredictor)
        assert (predictor.lstm.hidden_size, predictor.lstm.num_layers) == (16, layers)
        assert predictor.head[0].out_features == 8
        assert predictor.lstm.input_size == 80


def test_dropout_acts_in_training_and_not_in_evaluation():
    predictor, reveals = ConvPredictor(3, 2, 5, dropout=0.5), random_reveals(1, 5)
    lengths = torch.tensor([5])

    def run():
        return predictor.sequence(reveals, lengths)[0]

    predictor.train()
    assert not torch.equal(run(), run())
    predictor.eval()
    assert torch.equal(run(), run())


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(1, 9), min_size=1, max_size=40), st.integers(1, 50))
def test_padded_groups_hold_every_packed_row_once_in_the_place_of_its_step_and_series(lengths, group):
    lengths = sorted(lengths, reverse=True)
    sizes = tuple(sum(length > t for length in lengths) for t in range(lengths[0]))
    rows, shapes, back = by_group(sizes, group)
    assert torch.equal(rows[back], torch.arange(sum(sizes)))
    starts = [sum(sizes[:t]) for t in range(len(sizes))]
    first_row, first_series = 0, 0
    for steps, series in shapes:
        part = rows[first_row : first_row + steps * series].view(steps, series)
        for i in range(series):
            length = lengths[first_series + i]
            assert part[:length, i].tolist() == [starts[t] + first_series + i for t in range(length)]
        first_row, first_series = first_row + steps * series, first_series + series
    assert (first_row, first_series) == (len(rows), len(lengths))
