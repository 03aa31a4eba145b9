import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from whichwhen.checks import step_through
from whichwhen.errors import SpecError
from whichwhen.predictors import ConvPredictor, GRUPredictor, LSTMPredictor, TransformerPredictor, fit_bins, make_predictor
from whichwhen.predictors._bins import Bins
from whichwhen.predictors._inputs import RevealInput
from whichwhen.predictors._packing import by_group
from whichwhen.presets import preset_spec
from whichwhen.specs import PredictorSpec
from whichwhen.types import Reveal, narrow, tree_map

KINDS = {
    "conv": PredictorSpec(kind="conv", width=8, layers=3, dropout=0.0, time_features=3),
    "conv without time": PredictorSpec(kind="conv", width=8, layers=1, dropout=0.0, time_features=0),
    "lstm": PredictorSpec(kind="lstm", width=8, layers=2, head=4, dropout=0.0, time_features=2),
    "lstm without head": PredictorSpec(kind="lstm", width=8, layers=1, head=0, dropout=0.0, time_features=0),
    "paper": preset_spec("paper", "m-forda").predictor,
    "gru": PredictorSpec(kind="gru", width=8, layers=2, head=4, dropout=0.0, time_features=2),
    "gru without head": PredictorSpec(kind="gru", width=8, layers=1, head=0, dropout=0.0, time_features=0),
    **{
        f"{kind} with hinges": PredictorSpec(kind=kind, width=8, layers=2, dropout=0.0, time_features=2, hinges=True)
        for kind in ("conv", "lstm", "gru")
    },
    **{
        f"{kind} with bins": PredictorSpec(kind=kind, width=8, layers=2, dropout=0.0, time_features=2, bins=4)
        for kind in ("conv", "lstm", "gru")
    },
    "conv of the present": PredictorSpec(kind="conv", width=8, layers=2, dropout=0.0, now=True),
    "conv with carry": PredictorSpec(kind="conv", width=8, layers=2, dropout=0.0, carry=True),
    "conv with carry and bins": PredictorSpec(kind="conv", width=8, layers=2, dropout=0.0, carry=True, bins=4),
    "transformer": PredictorSpec(kind="transformer", width=8, layers=3, dropout=0.0, time_features=2),
    "transformer without time": PredictorSpec(kind="transformer", width=6, layers=1, dropout=0.0, time_features=0),
}
PLAIN = ("conv", "lstm", "gru", "transformer")
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


@pytest.mark.parametrize("kind", PLAIN)
@torch.no_grad()
def test_the_paths_agree_over_a_long_series(kind):
    predictor, reveals = make(kind, horizon=300), random_reveals(2, 300)
    logits, _ = predictor.sequence(reveals, torch.tensor([300, 300]))
    assert torch.allclose(logits, step_through(predictor, reveals), atol=1e-5)


@pytest.mark.parametrize("kind", PLAIN)
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


@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_time_is_an_input_only_where_it_is_asked_for(kind):
    predictor, reveals = make(kind), random_reveals(1, 4)
    moved = Reveal(reveals.values, reveals.mask, reveals.age, reveals.time + 3)
    one, other = (predictor.sequence(part, torch.tensor([4]))[0] for part in (reveals, moved))
    assert torch.equal(one, other) == (KINDS[kind].time_features == 0)


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


@torch.no_grad()
def test_gru_is_torch_s_gru():
    predictor, reveals = make("gru without head"), random_reveals(2, 6)
    out = predictor.gru(torch.cat([reveals.values, reveals.mask], -1).transpose(0, 1))[0].transpose(0, 1)
    logits, context = predictor.sequence(reveals, torch.tensor([6, 6]))
    assert torch.allclose(context, out, atol=1e-6)
    assert torch.allclose(logits, predictor.logits(out), atol=1e-6)


def test_the_paper_s_sizes():
    forda, digits = (preset_spec("paper", name).predictor for name in ("m-forda", "spoken-arabic-digits"))
    for spec, layers in ((forda, 2), (digits, 3)):
        predictor = make_predictor(spec, 40, 2, 50)
        assert isinstance(predictor, LSTMPredictor)
        assert (predictor.lstm.hidden_size, predictor.lstm.num_layers) == (16, layers)
        assert predictor.head[0].out_features == 8
        assert predictor.lstm.input_size == 80


@pytest.mark.parametrize("path", ["sequence", "step"])
@pytest.mark.parametrize("architecture", [ConvPredictor, LSTMPredictor, GRUPredictor, TransformerPredictor])
def test_dropout_acts_in_training_and_not_in_evaluation(architecture, path):
    predictor, reveals = architecture(3, 2, 5, dropout=0.5), random_reveals(1, 5)
    lengths = torch.tensor([5])

    def run():
        return predictor.sequence(reveals, lengths)[0] if path == "sequence" else step_through(predictor, reveals)

    predictor.train()
    assert not torch.equal(run(), run())
    predictor.eval()
    assert torch.equal(run(), run())


@pytest.mark.parametrize("kind", KINDS)
@settings(deadline=None, max_examples=10)
@given(stay=st.integers(1, 4), turn=st.integers(0, 5))
@torch.no_grad()
def test_a_narrowed_state_goes_on_for_the_series_that_are_left(kind, stay, turn):
    predictor, reveals = make(kind), random_reveals(4, 6)
    expected = by_steps(predictor, reveals)
    _, state = predictor.init(4)
    for t in range(6):
        left = 4 if t < turn else stay
        reveal = tree_map(lambda part, t=t, left=left: part[:left, t], reveals)
        logits, context, state = predictor.step(reveal, narrow(state, left))
        assert all(len(part) == left for part in state.values())
        assert torch.allclose(logits, expected[0][:left, t], atol=1e-5)
        assert torch.allclose(context, expected[1][:left, t], atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_a_step_leaves_the_state_that_it_was_given_alone(kind):
    predictor, reveals = make(kind), random_reveals(2, 3)
    _, state = predictor.init(2)
    for t in range(3):
        reveal = tree_map(lambda part, t=t: part[:, t], reveals)
        before = {name: part.clone() for name, part in state.items()}
        first, _, after = predictor.step(reveal, state)
        assert all(torch.equal(part, before[name]) for name, part in state.items())
        again, _, _ = predictor.step(reveal, state)
        assert torch.equal(first, again)
        state = after


@pytest.mark.parametrize("kind", PLAIN)
@pytest.mark.parametrize("path", ["sequence", "step"])
def test_each_mask_entry_gets_a_gradient_and_that_of_what_was_not_measured_knows_its_true_value(kind, path):
    predictor, reveals = make(kind), random_reveals(3, 5)
    truth = torch.randn(3, 5, 3, generator=torch.Generator().manual_seed(2))
    lengths = torch.tensor([5, 5, 5])

    def gradient(truth):
        mask = reveals.mask.clone().requires_grad_()
        reveal = Reveal(truth * mask, mask, reveals.age, reveals.time)
        logits = predictor.sequence(reveal, lengths)[0] if path == "sequence" else step_through(predictor, reveal)
        return torch.autograd.grad(torch.log_softmax(logits[:, -1], -1)[:, 0].sum(), mask)[0]

    found = gradient(truth)
    assert (found != 0).all()
    missed = reveals.mask == 0
    other = gradient(torch.where(missed, truth + 1, truth))
    assert (found != other)[missed].all()
    assert torch.allclose(found[~missed], other[~missed], atol=1e-6)


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


# -- hinges


def test_a_value_is_read_as_it_is_how_far_above_the_usual_and_how_far_below():
    inputs = RevealInput(5, 10, 0, hinges=True)
    values = torch.tensor([[0.0, 0.5, 1.7, -2.7, 50.0]])
    read = inputs(Reveal(values, torch.ones(1, 5), torch.zeros(1, 5), torch.zeros(1).long())).view(4, 5)
    assert torch.allclose(read[0], torch.tensor([0.0, 0.5, 1.7, -2.7, 3.0]))
    assert torch.allclose(read[1], torch.tensor([0.0, 0.0, 1.0, 0.0, 2.3]))
    assert torch.allclose(read[2], torch.tensor([0.0, 0.0, 0.0, 2.0, 0.0]))
    assert torch.equal(read[3], torch.ones(5))


def test_with_hinges_a_linear_map_finds_what_is_off_in_either_direction():
    values = torch.randn(2000, 1, generator=torch.Generator().manual_seed(0))
    off = (values.abs() > 1).float()
    errors = {}
    for hinges in (False, True):
        inputs = RevealInput(1, 10, 0, hinges=hinges)
        read = inputs(Reveal(values, torch.ones_like(values), torch.zeros_like(values), torch.zeros(2000).long()))
        errors[hinges] = float((read @ torch.linalg.lstsq(read, off).solution - off).square().mean())
    assert errors[True] < 0.4 * errors[False]


def test_hinges_of_a_transformer_are_refused():
    with pytest.raises(SpecError, match="hinges in a transformer"):
        PredictorSpec(kind="transformer", hinges=True)


# -- bins


def reveal_of(values, mask=None):
    values = torch.as_tensor(values, dtype=torch.float32)
    mask = torch.ones_like(values) if mask is None else torch.as_tensor(mask, dtype=torch.float32)
    return Reveal(values * mask, mask, torch.zeros_like(values), torch.zeros(len(values)).long())


def long_tailed(count=5000, seed=0):
    return np.random.default_rng(seed).lognormal(0, 2, (count, 1))


@settings(deadline=None, max_examples=50)
@given(values=st.lists(st.floats(-1e6, 1e6, width=32), min_size=1, max_size=40), seed=st.integers(0, 99))
def test_bins_fill_one_after_the_other_from_the_lowest(values, seed):
    bins = Bins(1, 5)
    bins.fit(long_tailed(200, seed))
    share = bins(reveal_of([[value] for value in values])).numpy()
    assert ((share >= 0) & (share <= 1)).all()
    assert (np.diff(share[np.argsort(np.float32(values))], axis=0) >= 0).all()  # higher values fill no bin less
    assert (bins.edges.diff(dim=1) > 0.01).all()  # narrower ones overlap
    assert ((share[:, 1:] == 0) | (share[:, :-1] == 1)).all()  # the next one only once the last is full


def test_bins_have_an_equal_share_of_the_training_values_each_however_long_their_tail():
    values = long_tailed()
    bins = Bins(1, 7)
    bins.fit(values)
    inside = [((values >= low) & (values < high)).mean() for low, high in itertools.pairwise(bins.edges[0].numpy())]
    assert np.allclose(inside, 0.98 / 7, atol=0.002)


def test_with_bins_a_linear_map_finds_what_lies_in_the_midst_of_a_long_tail():
    values = long_tailed()
    odd = torch.tensor((values > 5) & (values < 20), dtype=torch.float32)
    bins = Bins(1, 20)
    bins.fit(values)
    errors = {}
    for name, own in (("without", None), ("with", bins)):
        read = RevealInput(1, 10, 0, hinges=True, bins=own)(reveal_of(values))
        errors[name] = float((read @ torch.linalg.lstsq(read, odd, driver="gelsd").solution - odd).square().mean())
    assert errors["with"] < 0.3 * errors["without"]


def test_what_is_not_known_lies_in_no_bin_and_what_training_never_saw_has_edges_all_the_same():
    bins = Bins(2, 4)
    before = bins.edges.clone()
    bins.fit(np.stack([np.linspace(0, 1, 101), np.full(101, np.nan)], 1))
    assert torch.equal(bins.edges[1], before[1])
    assert not torch.equal(bins.edges[0], before[0])
    assert not bins(reveal_of([[5.0, 5.0]], [[0, 0]])).any()
    assert bins(reveal_of([[5.0, 5.0]])).eq(1).all()


def test_bins_of_a_set_in_which_nothing_was_ever_measured_keep_their_edges():
    bins = Bins(2, 4)
    before = bins.edges.clone()
    bins.fit(np.full((10, 2), np.nan))
    assert torch.equal(bins.edges, before)


def test_bins_of_a_predictor_with_carry_are_those_of_the_last_known_values():
    predictor = make("conv with carry and bins")
    fit_bins(predictor, np.random.default_rng(0).lognormal(0, 2, (500, 3)))
    read = []
    predictor.inner.inputs.bins.register_forward_hook(lambda module, inputs, found: read.append(found))
    _, state = predictor.init(1)
    once = reveal_of([[0.7, 3.0, 0.0]], [[1, 1, 0]])
    for reveal in (once, reveal_of([[0.0, 9.0, 0.0]], [[0, 1, 0]])):
        *_, state = predictor.step(reveal, state)
    first, then = (found.view(3, 4) for found in read)
    assert first[0].any()
    assert torch.equal(first[0], then[0])  # not measured again: as it was
    assert (then[1] - first[1]).max() > 0  # measured again
    assert not then[2].any()  # never


def test_the_gradient_of_what_is_known_reaches_the_request_that_made_it_known():
    predictor = make("conv with carry and bins")
    torch.nn.init.zeros_(predictor.inner.embed.weight)
    n = predictor.inner.inputs.bins.width
    start = predictor.inner.inputs.width - n - 2 * predictor.inner.inputs.time.frequencies
    with torch.no_grad():  # reads the bins alone
        predictor.inner.embed.weight[:, start : start + n] = torch.randn(8, n, generator=torch.Generator().manual_seed(0))
    mask = torch.tensor([[[1.0, 0, 0], [0, 0, 0]]], requires_grad=True)
    values = torch.tensor([[[0.7, 2.0, -1.0], [0, 0, 0]]]) * mask
    reveals = Reveal(values, mask, torch.zeros_like(mask), torch.arange(2).expand(1, 2))
    logits, _ = by_steps(predictor, reveals)
    (gradient,) = torch.autograd.grad(logits[0, 1].square().sum(), mask)
    assert gradient[0, 0, 0] != 0


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"kind": "transformer", "bins": 4}, "bins in a transformer"),
        ({"bins": -1}, "bins is -1"),
        ({"kind": "gru", "now": True}, "predictor-now for gru"),
    ],
)
def test_what_can_not_be_is_refused(wrong, message):
    with pytest.raises(SpecError, match=message):
        PredictorSpec(**wrong)


# -- the present


def test_a_predictor_of_the_present_follows_a_label_that_changes_where_the_mean_can_not():
    generator = torch.Generator().manual_seed(0)
    steps, size = 60, 32
    values = torch.randn(steps * size, 1, generator=generator)
    mask, time = torch.ones_like(values), torch.arange(steps).repeat_interleave(size)
    losses = {}
    for now in (False, True):
        torch.manual_seed(0)
        predictor = make_predictor(PredictorSpec(width=8, layers=1, dropout=0.0, time_features=0, now=now), 1, 2, steps)
        optimizer = torch.optim.Adam(predictor.parameters(), lr=0.02)
        labels = (values[:, 0] > 0).long()
        for _ in range(150):
            logits, _ = predictor.packed(Reveal(values, mask, torch.zeros_like(values), time), (size,) * steps)
            loss = torch.nn.functional.cross_entropy(logits, labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        losses[now] = float(loss.detach())
    assert losses[True] < 0.3 * losses[False], losses
