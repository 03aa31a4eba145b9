import json
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file

from builders import tiny_batch, tiny_dataset, tiny_spec
from whichwhen.checks import check_predictor
from whichwhen.errors import SessionError
from whichwhen.model import make_model
from whichwhen.predictors import TransformerPredictor
from whichwhen.types import Reveal, tree_map


def make(n_features=4, n_classes=3, horizon=10, width=8, layers=2, **others):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return TransformerPredictor(n_features, n_classes, horizon, width, layers, **others).eval()


def reveal_of(values, mask, time=0):
    return Reveal(values * mask, mask, torch.zeros_like(mask), torch.full(mask.shape[:1], time))


def draw(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def attention_over(cells, x, values, features):
    """One row's attention over the listed cells, token by token."""
    heads, size = cells.keys.shape[:2]
    queries = cells.query(cells.norm(x)).view(heads, size)
    found = []
    for head, query in enumerate(queries):
        n = cells.keys.shape[2] // 2
        keys = [cells.no_key[head, :, 0]]
        vectors = [cells.no_vector[head, 0]]
        for i in features:
            keys.append(cells.keys[head, :, i] + values[i] * cells.keys[head, :, n + i])
            vectors.append(cells.vectors[0, head, i] + values[i] * cells.vectors[1, head, i])
        weights = torch.softmax(torch.stack(keys) @ query / math.sqrt(size), 0)
        found.append(weights @ torch.stack(vectors))
    return x + cells.out(torch.cat(found))


@settings(deadline=None, max_examples=30)
@given(observed=st.lists(st.booleans(), min_size=4, max_size=4), seed=st.integers(0, 99), scale=st.sampled_from([0.1, 1, 30]))
@torch.no_grad()
def test_a_step_attends_to_its_observed_cells_and_to_nothing_else(observed, seed, scale):
    cells, x, values = make().cells, draw(1, 8, seed=seed), scale * draw(1, 4, seed=seed + 1)
    found = cells(x, reveal_of(values, torch.tensor([observed]).float()))
    expected = attention_over(cells, x[0], values[0], [i for i, seen in enumerate(observed) if seen])
    assert torch.allclose(found[0], expected, atol=1e-4)


@torch.no_grad()
def test_blocks_are_torch_s_pre_norm_encoder_layers_with_a_causal_mask():
    predictor, x = make(), draw(6, 2, 8)
    block = predictor.blocks[0]
    heads = block.heads
    twin = torch.nn.TransformerEncoderLayer(8, heads, 16, 0.0, "gelu", norm_first=True).eval()
    twin.load_state_dict(
        {
            "self_attn.in_proj_weight": block.attention_in.weight,
            "self_attn.in_proj_bias": block.attention_in.bias,
            "self_attn.out_proj.weight": block.attention_out.weight,
            "self_attn.out_proj.bias": block.attention_out.bias,
            "linear1.weight": block.forward_in.weight,
            "linear1.bias": block.forward_in.bias,
            "linear2.weight": block.forward_out.weight,
            "linear2.bias": block.forward_out.bias,
            "norm1.weight": block.attention_norm.weight,
            "norm1.bias": block.attention_norm.bias,
            "norm2.weight": block.forward_norm.weight,
            "norm2.bias": block.forward_norm.bias,
        }
    )
    mask = torch.nn.Transformer.generate_square_subsequent_mask(6)
    assert torch.allclose(block(x), twin(x, src_mask=mask, is_causal=True), atol=1e-5)


def test_the_gradient_of_the_mask_is_the_derivative_of_the_logits_at_0_and_at_1():
    predictor, truth = make().double(), draw(2, 4).double()
    mask = torch.tensor([[0, 1, 0, 1], [0, 0, 0, 0]]).double().requires_grad_()

    def logits(mask):
        return predictor.packed(reveal_of(truth, mask), (2,))[0].sum()

    found = torch.autograd.grad(logits(mask), mask)[0]
    mask = mask.detach()
    for row in range(2):
        for column in range(4):
            ahead, behind = mask.clone(), mask.clone()
            ahead[row, column] += 1e-6
            behind[row, column] -= 1e-6
            slope = (logits(ahead) - logits(behind)).item() / 2e-6
            assert found[row, column].item() == pytest.approx(slope, rel=1e-4, abs=1e-7)


@pytest.mark.parametrize("scale", [1e2, 1e4, 1e6])
def test_far_out_values_and_keys_give_finite_logits_and_gradients(scale):
    predictor, truth = make(), scale * draw(3, 4)
    with torch.no_grad():
        predictor.cells.keys.mul_(100)
    mask = torch.tensor([[0, 1, 0, 1], [0, 0, 0, 0], [1, 1, 1, 1]]).float().requires_grad_()
    logits, _ = predictor.packed(reveal_of(truth, mask), (3,))
    found = torch.autograd.grad(logits.square().sum(), [mask, *predictor.parameters()])
    assert all(torch.isfinite(part).all() for part in (logits, *found))


@torch.no_grad()
def test_every_earlier_step_is_read_and_no_step_is_encoded_again():
    predictor, rows = make(), draw(9, 1, 4)
    encoded = []
    predictor.cells.register_forward_hook(lambda module, args, out: encoded.append(len(out)))
    for block in predictor.blocks:
        block.attention_in.register_forward_hook(lambda module, args, out: encoded.append(out.shape[:-1].numel()))
    _, state = predictor.init(1)
    for t, row in enumerate(rows):
        _, _, state = predictor.step(reveal_of(row, torch.ones(1, 4), t), state)
        assert all(part.shape == (1, t + 1, 16) for part in state.values())
    assert encoded == [1] * 9 * 3
    for t in range(9):
        other = {name: part.clone() for name, part in state.items()}
        other["past0"][:, t] += 1
        reveal = reveal_of(rows[0], torch.ones(1, 4), 9)
        assert not torch.equal(predictor.step(reveal, state)[0], predictor.step(reveal, other)[0])


@torch.no_grad()
def test_steps_without_a_single_observed_cell_differ_by_their_time_alone():
    predictor, nothing = make(), torch.zeros(2, 5, 4)
    reveals = Reveal(nothing, nothing, nothing, torch.arange(5).expand(2, 5))
    logits, context = predictor.sequence(reveals, torch.tensor([5, 5]))
    assert torch.isfinite(logits).all()
    assert torch.equal(logits[0], logits[1])
    assert len(context[0].unique(dim=0)) == 5


@pytest.mark.parametrize(("width", "heads", "taken"), [(32, 2, 2), (32, 4, 4), (6, 4, 2), (9, 2, 1), (12, 3, 3), (1, 4, 1)])
def test_heads_are_as_many_as_the_width_can_be_shared_among(width, heads, taken):
    predictor = make(width=width, heads=heads)
    assert predictor.cells.keys.shape[0] == predictor.blocks[0].heads == taken
    check_predictor(predictor, n_features=4, n_classes=3)


@pytest.mark.parametrize("steps", [2, 9, 40])
def test_the_contract_is_kept_at_any_length(steps):
    check_predictor(make(horizon=steps, dropout=0.5), n_features=4, n_classes=3, steps=steps)


# -- a state that grows, in a session


@pytest.fixture(scope="module")
def model():
    return make_model(tiny_spec(predictor__kind="transformer", acquirer__context=True), tiny_dataset())


def run(session, rows):
    return [session.observe({name: float(row[int(name[1:])]) for name in session.request}) for row in rows]


@pytest.mark.parametrize("behind", [0, 2, 6])
@pytest.mark.parametrize("stop", [0, 1, 4])
def test_a_session_is_restored_onto_one_that_has_gone_on_for_any_time(model, stop, behind, tmp_path):
    rows = tiny_batch((7,)).values[0]
    whole, session, later = model.session(), model.session(), model.session()
    expected = run(whole, rows)
    run(session, rows[:stop])
    session.save(tmp_path / "session")
    run(later, rows[:behind].flip(0))
    later.restore(tmp_path / "session")
    assert run(later, rows[stop:]) == expected[stop:]
    assert later.time == 7


def test_a_saved_session_that_lacks_the_keys_and_values_of_a_block_is_refused(model, tmp_path):
    session, path = model.session(), tmp_path / "session"
    run(session, tiny_batch((3,)).values[0])
    session.save(path)
    facts = {"time": 3, "total_cost": 6.0, "fingerprint": model.fingerprint}
    short = {name: part for name, part in load_file(path).items() if name != "predictor.past1"}
    save_file(short, path, {"session": json.dumps(facts)})
    with pytest.raises(SessionError, match="past1"):
        session.restore(path)


@torch.no_grad()
def test_a_branch_from_a_state_does_not_disturb_another():
    predictor, rows = make(), draw(6, 2, 4)
    seen = torch.ones(2, 4)
    _, state = predictor.init(2)
    for t in range(3):
        _, _, state = predictor.step(reveal_of(rows[t], seen, t), state)
    kept = tree_map(torch.clone, state)
    one, _, _ = predictor.step(reveal_of(rows[3], seen, 3), state)
    predictor.step(reveal_of(rows[4], seen, 3), state)
    again, _, _ = predictor.step(reveal_of(rows[3], seen, 3), kept)
    assert torch.equal(one, again)
