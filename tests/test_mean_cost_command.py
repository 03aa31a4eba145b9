"""A mean cost, from the command line to a session: what is kept, what is spent, what can't be reached."""

import json
import re
import shutil
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch
from safetensors.torch import load_file

import whichwhen as ww
from support import contents
from whichwhen.cli import main
from whichwhen.errors import BudgetWarning
from whichwhen.evaluation.prices import at_budget
from whichwhen.training.recipe import _Recipe

VOWELS = (
    *("train", "japanese-vowels", "--fakes", "noise", "--n-fakes", "3", "--effort", "0.02", "--trees", "20"),
    *("--width", "8", "--layers", "1", "--acquirer-hidden", "8"),
)
KEPT = ("learned-only", "round-robin")
EVERYTHING = 15
"""Of twelve real columns and three fakes."""
SPLIT = ("--split", "validation")


@pytest.fixture(autouse=True)
def no_data_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WHICHWHEN_DATA", raising=False)


def prefer(kind: str, patch: pytest.MonkeyPatch) -> None:
    """Let round robin be the best rule, and validation find ``kind`` better than the other one."""
    choose, screen = _Recipe._loss_for_choice, _Recipe._screen_rules

    def loss(self: Any, model: Any, phase: str) -> float:
        return choose(self, model, phase) - 100.0 * (model.card.acquirer == kind)

    def screened(self: Any) -> None:
        screen(self)
        self.facts["rule"] = "round-robin"

    patch.setattr(_Recipe, "_loss_for_choice", loss)
    patch.setattr(_Recipe, "_screen_rules", screened)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A run for a mean cost of 1.5 that kept the network, and one that kept the rule."""
    folder = tmp_path_factory.mktemp("mean-cost")
    for kind in KEPT:
        with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
            warnings.simplefilter("ignore", BudgetWarning)
            patch.delenv("WHICHWHEN_DATA", raising=False)
            prefer(kind, patch)
            assert main([*VOWELS, "--mean-cost", "1.5", "--quiet", "--out", str(folder / kind)]) == 0
    return {kind: folder / kind for kind in KEPT}


def result_of(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "result.json").read_text())


def printed(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> str:
    capsys.readouterr()
    assert main(list(words)) == 0
    out, err = capsys.readouterr()
    assert err == ""
    return out


# the run


@pytest.mark.parametrize("kind", KEPT)
def test_the_result_says_what_was_asked_kept_and_left(kind: str, runs: dict[str, Path]) -> None:
    result = result_of(runs[kind])
    assert (result["acquirer"], result["kept"]) == ("learned", kind)
    assert (result["budget_kind"], result["budget"]) == ("mean-cost", 1.5)
    if kind == "learned-only":
        assert result["price"] > 0
    else:  # a rule knows no price
        assert result["price"] is None
    rows = {row["acquirer"]: row for row in result["candidates"]}
    assert set(rows) == set(KEPT)
    assert rows["learned-only"]["title"] == "learned"
    assert re.fullmatch(r"round robin of \d+", rows["round-robin"]["title"])
    assert [name for name, row in rows.items() if row["kept"]] == [kind]
    assert rows[kind]["test"] == result["test"]
    assert rows[kind]["kept_minus_this"] == 0
    (other,) = (row for row in rows.values() if not row["kept"])
    assert other["kept_minus_this"] == pytest.approx(result["test"]["accuracy"] - other["test"]["accuracy"])
    assert other["standard_error"] > 0
    for row in rows.values():
        assert np.isfinite(row["validation_loss"])


def test_the_two_runs_differ_in_the_choice_alone(runs: dict[str, Path]) -> None:
    one, other = (result_of(runs[kind])["candidates"] for kind in KEPT)
    assert {row["acquirer"]: row["test"] for row in one} == {row["acquirer"]: row["test"] for row in other}


@pytest.mark.parametrize("kind", KEPT)
def test_what_is_spent_on_validation_is_at_most_what_was_asked_for(kind: str, runs: dict[str, Path]) -> None:
    spent = result_of(runs[kind])["validation"]["cost_per_step"]
    assert 1.0 < spent <= 1.5 + 1e-6


def test_the_line_below_the_table_names_both(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    prefer("round-robin", monkeypatch)
    out = printed((*VOWELS, "--effort", "0.003", "--budget", "2", "--quiet", "--out", str(tmp_path / "run")), capsys)
    (line,) = (line for line in out.splitlines() if line.startswith("kept "))
    assert re.match(r"kept round robin of \d+: 0\.\d{3}; learned would have given 0\.\d{3} \(difference [+-]", line)
    assert line.endswith("a fixed rule is enough here")
    assert "requests on real features" in out


# other budgets of a trained run


BUDGETS = [("--mean-cost", 0.7), ("--mean-cost", 3), ("--budget", 2), ("--price", 0.003), ("--total", 8)]


@pytest.mark.parametrize("kind", KEPT)
@pytest.mark.parametrize(("flag", "amount"), BUDGETS)
def test_evaluate_prints_what_was_asked_for_and_spent(
    flag: str, amount: float, kind: str, runs: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    before = contents(runs[kind])
    words = ("evaluate", str(runs[kind]), flag, str(amount), *SPLIT)
    document = json.loads(printed((*words, "--json"), capsys))
    assert document["budget kind"] == {"--budget": "per-step"}.get(flag, flag[2:])
    assert document["budget"] == amount
    spent = document["requested_cost"] if flag == "--total" else document["cost_per_step"]
    assert 0 < spent <= (EVERYTHING if flag == "--price" else amount + 1e-6)
    if flag == "--mean-cost":
        assert spent > 0.6 * amount
    shown = dict(re.split(r"\s{2,}", line, maxsplit=1) for line in printed(words, capsys).splitlines() if "  " in line)
    assert shown["budget kind"] == document["budget kind"]
    assert float(shown["budget"]) == amount
    assert shown["cost_per_step"] == f"{document['cost_per_step']:.4g}"
    assert contents(runs[kind]) == before


@pytest.mark.parametrize(("flag", "amount"), BUDGETS)
def test_of_few_validation_series_the_network_serves_all_other_budgets(
    flag: str, amount: float, runs: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    for kind in KEPT:
        document = json.loads(printed(("evaluate", str(runs[kind]), flag, str(amount), *SPLIT, "--json"), capsys))
        assert document["kept"] == "learned-only"


@pytest.mark.parametrize(("flag", "amount"), BUDGETS)
def test_which_of_the_two_serves_another_budget_is_found_again_on_validation(
    flag: str,
    amount: float,
    runs: dict[str, Path],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("whichwhen.evaluation.choice.FEW", 1)  # as if there were many validation series
    one, other = (
        json.loads(printed(("evaluate", str(runs[kind]), flag, str(amount), *SPLIT, "--json"), capsys)) for kind in KEPT
    )
    assert {**one, "run": ""} == {**other, "run": ""}  # whichever was kept for the budget asked for
    models = ww.load_candidates(runs["learned-only"])
    spec = models[0].card.spec
    validation = ww.load_dataset(spec.data, spec.seed).validation
    name = {"--budget": "per_step"}.get(flag, flag[2:].replace("-", "_"))
    losses: dict[str, float] = {}
    price = amount if flag == "--price" else 0.0
    for model in models:
        policy = at_budget(model, spec.budget.at(**{name: amount}), validation)
        found = ww.evaluate(policy, validation).metrics
        if flag == "--mean-cost" and not losses:
            price = policy.budget.price  # the network's, for both
        losses[model.card.acquirer] = found.loss + price * found.requested_cost
    assert one["kept"] == min(losses, key=lambda kind: losses[kind])


def test_a_higher_price_spends_less(runs: dict[str, Path], capsys: pytest.CaptureFixture[str]) -> None:
    for kind in KEPT:
        costs = [
            json.loads(printed(("evaluate", str(runs[kind]), "--price", price, *SPLIT, "--json"), capsys))["cost_per_step"]
            for price in ("1e-6", "1e-3", "10")
        ]
        assert costs[0] >= costs[1] >= costs[2]
        assert costs[0] > costs[2]


def test_without_another_budget_the_numbers_are_those_of_the_run(runs: dict[str, Path], capsys) -> None:
    for kind in KEPT:
        document = json.loads(printed(("evaluate", str(runs[kind]), "--json"), capsys))
        test = result_of(runs[kind])["test"]
        assert {name: document[name] for name in test} == test
        assert (document["budget kind"], document["budget"]) == ("mean-cost", 1.5)


# a mean cost that no price reaches


@pytest.fixture
def modest_beside_a_rule(runs: dict[str, Path], tmp_path: Path) -> Path:
    """The network's run with weights that make it ask for three columns at most, whatever the price."""
    shutil.copytree(runs["learned-only"], tmp_path / "modest")
    path = tmp_path / "modest" / "weights.safetensors"
    model = ww.load_model(path)
    with torch.no_grad():
        model.policy.acquirer.scores.bias[3:] -= 1000
    ww.save_model(path, model)
    return tmp_path / "modest"


@pytest.fixture
def modest(modest_beside_a_rule: Path) -> Path:
    """The same, with nothing to choose from."""
    shutil.rmtree(modest_beside_a_rule / "candidates")
    return modest_beside_a_rule


def test_where_the_rule_reaches_what_the_network_does_not_it_is_used_without_a_warning(
    modest_beside_a_rule: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("evaluate", str(modest_beside_a_rule), "--mean-cost", "12", *SPLIT, "--json")
    document = json.loads(printed(words, capsys))
    assert document["kept"] == "round-robin"
    assert document["cost_per_step"] == pytest.approx(12)


@pytest.mark.filterwarnings("always::whichwhen.errors.BudgetWarning")
def test_a_mean_cost_that_no_price_reaches_is_one_plain_line(modest: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert main(["evaluate", str(modest), "--mean-cost", "12", *SPLIT, "--json"]) == 0
    out, err = capsys.readouterr()
    assert err.count("\n") == 1
    found = re.fullmatch(
        r"warning: no price reaches a mean cost of 12 per step: .*; the nearest is ([\d.]+), at a price of ([\d.e-]+)\n", err
    )
    assert found is not None, err
    document = json.loads(out)
    assert document["cost_per_step"] == pytest.approx(float(found[1]), rel=0.01)
    assert 0 < document["cost_per_step"] <= 3
    assert document["price"] == pytest.approx(float(found[2]), rel=0.01)
    assert document["budget"] == 12


def test_in_python_it_is_a_warning_of_its_own_kind(modest: Path) -> None:
    model = ww.load_model(modest)
    spec = model.card.spec
    data = ww.load_dataset(spec.data, spec.seed)
    with pytest.warns(BudgetWarning, match="no price reaches a mean cost of 12"):
        at_budget(model, spec.budget.at(mean_cost=12), data.validation)


def test_within_reach_there_is_no_warning(modest: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spent = json.loads(printed(("evaluate", str(modest), "--mean-cost", "1", *SPLIT, "--json"), capsys))["cost_per_step"]
    assert 0.6 < spent <= 1 + 1e-6


# live


@pytest.mark.parametrize("kind", KEPT)
def test_a_session_does_what_the_run_did(kind: str, runs: dict[str, Path]) -> None:
    model = ww.load_model(runs[kind])
    assert model.card.acquirer == kind
    spec = model.card.spec
    data = ww.load_dataset(spec.data, spec.seed)
    mean, std = np.array(model.card.mean), np.array(model.card.std)
    table = pl.read_parquet(runs[kind] / "series.parquet")
    for i in range(4):
        length = int(data.test.lengths[i])
        values = data.test.hindsight(np.array([i])).batch.values[0, :length].numpy() * std + mean
        session = model.session()
        for step in values:
            asked = [model.card.features.index(name) for name in session.request]
            outcome = session.observe({model.card.features[k]: float(step[k]) for k in asked})
        row = table.row(i, named=True)
        assert session.total_cost == pytest.approx(row["cost"])
        assert outcome.prediction == row["prediction"]


@pytest.mark.parametrize("kind", KEPT)
@pytest.mark.filterwarnings("ignore::whichwhen.errors.BudgetWarning")
def test_the_estimator_keeps_either_and_its_file_and_session_do_the_same(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prefer(kind, monkeypatch)
    rng = np.random.default_rng(0)
    y = np.arange(40) % 2
    X = rng.standard_normal((40, 4, 6))
    X[:, 0] += 3.0 * y[:, None]
    small = {"width": 8, "layers": 1, "effort": 0.01, "random_state": 0, "settings": {"acquirer__trees": 10}}
    clf = ww.AcquisitionClassifier(mean_cost=1.5, **small).fit(X, y)
    assert clf.kept_ == clf.model_.card.acquirer == kind
    requested, cost = clf.acquire(X)
    assert requested.sum((1, 2)).tolist() == cost.tolist()
    assert 0 < cost.mean() / 6 <= 2
    again = ww.AcquisitionClassifier.load(clf.save(tmp_path / "one"))
    assert again.kept_ == kind
    assert again.get_params() == clf.get_params()
    assert np.array_equal(again.acquire(X).requested, requested)
    assert np.array_equal(again.predict_proba(X), clf.predict_proba(X))
    for i in range(3):
        session = again.session()
        for t in range(6):
            assert set(session.request) == {f"x{k}" for k in np.flatnonzero(requested[i, :, t])}
            outcome = session.observe({name: X[i, int(name[1:]), t] for name in session.request})
        assert session.total_cost == cost[i]
        assert list(outcome.probabilities.values()) == pytest.approx(clf.predict_proba(X)[i], abs=1e-6)


# Python and the command line


def test_python_and_the_command_line_make_the_same_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "typed"
    words = ("train", "japanese-vowels", "--effort", "0.005", "--budget", "2", "--trees", "20", "--width", "8", "--layers", "1")
    typed = json.loads(printed((*words, "--acquirer-hidden", "8", "--json", "--out", str(out)), capsys))
    spec = ww.RunSpec().change(
        data__name="japanese-vowels",
        training__effort=0.005,
        budget__per_step=2,
        acquirer__trees=20,
        acquirer__hidden=8,
        predictor__width=8,
        predictor__layers=1,
    )
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        called = ww.train(spec, tmp_path / "called")
    finally:
        torch.set_num_threads(before)
    assert called["spec_hash"] == typed["spec_hash"] == spec.hash
    mine, theirs = (load_file(tmp_path / name / "weights.safetensors") for name in ("called", "typed"))
    assert mine.keys() == theirs.keys()
    assert all(torch.equal(mine[name], theirs[name]) for name in mine)
    own = ("cpu_seconds",)
    assert {name: value for name, value in called.items() if name not in own} == {
        name: value for name, value in typed.items() if name not in own
    }
