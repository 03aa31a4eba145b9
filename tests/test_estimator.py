import copy
import json
import pickle
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import parametrize_with_checks

import whichwhen as ww
from whichwhen.errors import InputError, ParameterError, RunFolderError
from whichwhen.estimator import SKIPPED_CHECKS, AcquisitionClassifier
from whichwhen.specs import RULES

QUICK = {"effort": 0.01, "batch_size": 16, "learning_rate": 0.01, "width": 16, "layers": 1, "random_state": 0} | {
    "settings": {"acquirer__trees": 5}
}
LEARNS = {"effort": 0.03}
NETWORK = {"acquirer": "learned-only"}


def made(n=40, n_features=4, steps=6, n_classes=2, seed=0, names=None):
    """Series whose first feature tells the class; labels are ints, or the given names."""
    rng = np.random.default_rng(seed)
    labels = np.arange(n) % n_classes
    X = rng.standard_normal((n, n_features, steps))
    X[:, 0] += 3.0 * labels[:, None]
    return X, labels if names is None else np.array(names)[labels]


def quick(budget=1, **parameters):
    return AcquisitionClassifier(budget, **(QUICK | parameters))


@pytest.fixture(scope="module")
def fitted():
    return quick(**LEARNS, **NETWORK).fit(*made())


# scikit-learn's own checks


@parametrize_with_checks([quick(batch_size=32)], expected_failed_checks=lambda _: SKIPPED_CHECKS)
def test_scikit_learn_s_checks_hold(estimator, check):
    check(estimator)


def test_the_checks_that_are_skipped_are_the_ones_in_the_docs():
    text = (Path(__file__).parents[1] / "docs" / "estimator.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| `(check_\w+)` \| (.+) \|$", text, re.MULTILINE))
    assert rows == SKIPPED_CHECKS


# inside scikit-learn


def test_cross_val_score_takes_arrays_and_lists():
    X, y = made(60)
    scores = cross_val_score(quick(batch_size=8, **LEARNS), X, y, cv=2)
    assert scores.mean() > 0.8
    assert cross_val_score(quick(batch_size=8, **LEARNS), list(X), y, cv=2).tolist() == scores.tolist()


def test_a_grid_search_over_budgets_refits_the_best():
    X, y = made(60)
    grid = {"budget": np.array([1, 2]), "acquirer": ["static"]}
    search = GridSearchCV(quick(), grid, cv=2, error_score="raise").fit(X, y)
    assert search.best_estimator_.acquire(X).cost.tolist() == [6 * search.best_params_["budget"]] * 60


def test_groups_choose_the_folds_and_stay_together_within():
    X, y = made(60)
    patients = np.arange(60) // 4
    fold = GroupKFold(3)
    scores = cross_val_score(quick(), X, y, groups=patients, cv=fold, error_score="raise")
    assert len(scores) == 3
    with pytest.raises(InputError, match="in 1 groups"):
        quick().fit(X, y, groups=["same"] * 60)


def test_a_clone_has_the_parameters_and_nothing_learned(fitted):
    again = clone(fitted)
    assert again.get_params() == fitted.get_params()
    with pytest.raises(NotFittedError):
        again.predict(made()[0])


def test_a_clone_of_one_with_a_menu_orders_from_an_equal_one():
    menu = ww.Menu.one_per_feature([ww.Feature("a"), ww.Feature("b")])
    assert clone(AcquisitionClassifier(menu=menu)).menu == menu


def test_it_ends_a_pipeline():
    X, y = made()
    line = make_pipeline(FunctionTransformer(np.negative), quick(**LEARNS)).fit(X, y)
    assert line.score(X, y) > 0.8


@pytest.mark.parametrize("again", [copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))], ids=["copy", "pickle"])
def test_copies_do_the_same(again, fitted):
    X, _ = made(seed=1)
    assert np.array_equal(again(fitted).predict_proba(X), fitted.predict_proba(X))


# what it learns


def test_it_finds_the_feature_that_tells(fitted):
    X, y = made(seed=1)
    assert fitted.score(X, y) > 0.9
    asked = fitted.acquire(X).requested.mean(axis=(0, 2))
    assert asked.argmax() == 0


def test_the_same_seed_gives_the_same_model_and_another_one_another():
    X, y = made()
    one, same, other = (quick(random_state=seed).fit(X, y).predict_proba(X) for seed in (3, 3, 4))
    assert np.array_equal(one, same)
    assert not np.array_equal(one, other)


def test_without_a_seed_numpy_s_own_randomness_decides():
    X, y = made()
    np.random.seed(5)
    one = quick(random_state=None).fit(X, y).predict_proba(X)
    other = quick(random_state=None).fit(X, y).predict_proba(X)
    np.random.seed(5)
    assert np.array_equal(one, quick(random_state=None).fit(X, y).predict_proba(X))
    assert not np.array_equal(one, other)


@pytest.mark.parametrize(
    ("names", "n_classes"), [(["no", "yes"], 2), (["c", "a", "b"], 3), ([True, False], 2), ([2.0, -1.0], 2), ([30, 7, 10], 3)]
)
def test_labels_may_be_anything_that_sorts(names, n_classes):
    X, y = made(n_classes=n_classes, names=names)
    clf = quick(**LEARNS).fit(X, y)
    assert clf.classes_.tolist() == sorted(names)
    assert clf.predict(X).dtype == clf.classes_.dtype
    assert clf.score(X, y) > 0.5
    shares = clf.predict_proba(X)
    assert shares.shape == (40, n_classes)
    assert np.allclose(shares.sum(1), 1)


def test_values_that_were_not_asked_for_change_nothing(fitted):
    X, _ = made(seed=1)
    asked = fitted.acquire(X).requested
    garbled = np.where(asked, X, 99.0)
    assert np.array_equal(fitted.predict_proba(garbled), fitted.predict_proba(X))


@pytest.mark.parametrize(
    "acquirer", ["learned", "table", "round-robin", "static", "static-by-time", "random", "none", "complete"]
)
def test_a_series_is_answered_alike_wherever_it_stands(acquirer):
    X, y = made(30, 5)
    clf = quick(2, acquirer=acquirer).fit(X, y)
    turned = clf.acquire(X[::-1])
    assert np.array_equal(turned.requested[::-1], clf.acquire(X).requested)
    assert np.allclose(clf.predict_proba(X[7:8]), clf.predict_proba(X)[7], atol=1e-6)


def test_class_weights_and_sample_weights_count():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((60, 2, 4)), np.arange(60) % 2
    for weights in ({"class_weight": {0: 50, 1: 1}}, {}):
        clf = quick(**LEARNS, **weights)
        clf.fit(X, y, sample_weight=None if weights else np.where(y == 0, 50, 1))
        assert (clf.predict(X) == 0).mean() > 0.9


def test_a_weight_of_zero_leaves_a_series_out():
    X, y = made()
    more, labels = np.concatenate([X, X[:9] + 5]), np.append(y, y[:9])
    weights = np.append(np.ones(40), np.zeros(9))
    one, other = quick().fit(more, labels, sample_weight=weights), quick().fit(X, y, sample_weight=np.ones(40))
    assert np.array_equal(one.predict_proba(X), other.predict_proba(X))


def test_it_keeps_a_record_of_each_phase(fitted):
    assert [line["epoch"] for line in fitted.history_] == [1, 2, 3, 4, 5, 6, 7]
    assert [line["phase"] for line in fitted.history_] == ["warm-up", "joint", "settle"] * 2 + ["refit"]


def test_further_settings_reach_the_spec():
    own = {"acquirer__memory": 4, "training__step_loss": 0.7}
    spec = quick(settings=own, objective="foresight", **NETWORK).fit(*made()).model_.card.spec
    assert (spec.acquirer.memory, spec.training.step_loss, spec.training.objective) == (4, 0.7, "foresight")


def test_it_trains_by_the_paper_s_epochs_where_settings_say_so():
    clf = quick(settings={"training__epochs": 2}, effort="normal", **NETWORK).fit(*made())
    assert [line["epoch"] for line in clf.history_] == [1, 2]
    assert "phase" not in clf.history_[0]


@pytest.mark.parametrize(
    ("width", "effort", "units"), [(None, 0.01, 8), (None, "quick", 24), (None, "normal", 32), (5, "quick", 5)]
)
def test_the_width_goes_with_the_effort_unless_it_is_given(width, effort, units):
    clf = AcquisitionClassifier(effort=effort, width=width)
    assert clf._spec().predictor_of().width == units


@pytest.mark.parametrize("acquirer", ["learned", "learned-only", "static"])
def test_it_says_which_acquirer_is_used(acquirer):
    clf = quick(acquirer=acquirer).fit(*made())
    assert clf.kept_ == clf.model_.card.acquirer
    assert clf.kept_ in (("learned-only", *RULES) if acquirer == "learned" else (acquirer,))


# what X may be


def test_series_of_other_lengths_come_as_a_list():
    X, y = made(steps=8)
    lengths = np.random.default_rng(0).integers(2, 9, 40)
    series = [one[:, :steps] for one, steps in zip(X, lengths, strict=True)]
    clf = quick(**LEARNS).fit(series, y)
    assert clf.n_features_in_ == 4
    assert clf.score(series, y) > 0.8
    requested, cost = clf.acquire(series)
    assert requested.shape == (40, 4, 8)
    assert requested.sum((1, 2)).tolist() == cost.tolist() == lengths.tolist()
    assert not any(requested[i, :, steps:].any() for i, steps in enumerate(lengths))
    longer = np.random.default_rng(1).standard_normal((2, 4, 20))
    assert clf.acquire(longer).requested.shape == (2, 4, 20)
    in_a_box = np.empty(40, dtype=object)
    in_a_box[:] = series
    assert np.array_equal(clf.predict_proba(in_a_box), clf.predict_proba(series))


def test_two_dimensions_are_series_of_one_feature():
    X, y = made(n_features=1)
    flat, deep = quick().fit(X[:, 0], y), quick().fit(X, y)
    assert (flat.n_features_in_, deep.n_features_in_) == (6, 1)
    assert np.array_equal(flat.predict_proba(X[:, 0]), deep.predict_proba(X))
    assert np.array_equal(flat.predict_proba(X), deep.predict_proba(X[:, 0]))
    assert flat.predict(list(X[:, :, :3])).shape == (40,)


def test_a_frame_of_numbers_is_such_an_array_with_named_columns():
    pd = pytest.importorskip("pandas")
    X, y = made(n_features=1)
    frame = pd.DataFrame(X[:, 0], columns=[f"t{i}" for i in range(6)])
    clf = quick().fit(frame, y)
    assert clf.feature_names_in_.tolist() == ["t0", "t1", "t2", "t3", "t4", "t5"]
    with pytest.raises(ValueError, match="feature names"):
        clf.predict(frame.rename(columns={"t0": "other"}))


def test_nan_is_not_measured():
    X, y = made(60)
    holes = np.where(np.random.default_rng(0).random(X.shape) < 0.4, np.nan, X)
    clf = quick(2, **LEARNS).fit(holes, y)
    assert clf.score(holes, y) > 0.8
    assert np.isfinite(clf.predict_proba(np.full((2, 4, 6), np.nan))).all()


def test_what_is_given_is_not_changed():
    X, y = made()
    before = X.copy()
    quick().fit(X, y).predict(X)
    assert np.array_equal(X, before)


# menus and budgets


def hospital():
    features = [ww.Feature(name) for name in ("pulse", "ph", "pco2", "lactate")]
    orders = (
        ww.Order("pulse", ("pulse",), 0.0, free=True),
        ww.Order("blood gas", ("ph", "pco2"), 3.0),
        ww.Order("lactate", ("lactate",), 2.0),
    )
    return ww.Menu(tuple(features), orders)


def test_panels_cost_what_they_cost_and_free_channels_nothing():
    X, y = made()
    clf = quick(3, menu=hospital(), **LEARNS).fit(X, y)
    assert clf.feature_names_in_.tolist() == ["pulse", "ph", "pco2", "lactate"]
    requested, cost = clf.acquire(X)
    assert requested.shape == (40, 3, 6)
    assert not requested[:, 0].any()
    assert (np.einsum("nkt,k->nt", requested, [0, 3, 2]) <= 3).all()
    assert np.allclose(cost, np.einsum("nkt,k->n", requested, [0, 3, 2]))
    assert clf.score(X, y) > 0.8  # by the pulse alone


@pytest.mark.parametrize("acquirer", ["learned-only", "static"])
def test_a_total_is_never_exceeded(acquirer):
    X, y = made()
    clf = quick(None, total=4, acquirer=acquirer).fit(X, y)
    assert clf.acquire(X).cost.max() <= 4


def test_a_budget_beside_a_total_is_a_cap_at_each_step():
    X, y = made()
    clf = quick(1, total=4, acquirer="random").fit(X, y)
    assert clf.acquire(X).requested.sum(1).max() == 1
    assert (clf.acquire(X).cost <= 4).all()


@pytest.mark.parametrize("acquirer", ["learned-only", "static"])
def test_a_price_is_paid_where_it_is_worth_it(acquirer):
    X, y = made()
    fits = (quick(None, price=price, acquirer=acquirer).fit(X, y) for price in (1e-6, 100.0))
    cheap, dear = (clf.acquire(X).cost.mean() for clf in fits)
    assert dear < cheap


def test_a_mean_cost_is_saved_up_by_a_rule():
    X, y = made()
    clf = quick(None, mean_cost=0.5, acquirer="static").fit(X, y)
    requested, cost = clf.acquire(X)
    assert (cost == 3).all()
    assert (requested.sum(1).cumsum(1) <= 0.5 * np.arange(1, 7)).all()


# sessions


def test_a_session_agrees_with_predict():
    X, y = made(40, names=["no", "yes"])
    clf = quick(2, menu=hospital()).fit(X, y)
    reveals = {order.name: order.features for order in clf.menu_.orders}
    names = list(clf.feature_names_in_)
    requested, cost = clf.acquire(X)
    for i in range(5):
        session = clf.session()
        for t in range(6):
            assert set(session.request) == {clf.menu_.names[k] for k in np.flatnonzero(requested[i, :, t])}
            due = {"pulse", *(name for order in session.request for name in reveals[order])}
            outcome = session.observe({name: X[i, names.index(name), t] for name in due})
        assert outcome.prediction == clf.predict(X)[i]
        assert list(outcome.probabilities.values()) == pytest.approx(clf.predict_proba(X)[i], abs=1e-6)
        assert session.total_cost == cost[i]


# files


@pytest.mark.parametrize("names", [None, ["no", "yes"], [True, False], [-1.0, 1.0]])
def test_a_saved_classifier_does_the_same(names, tmp_path):
    X, y = made(names=names)
    clf = quick(2, menu=hospital(), class_weight="balanced", validation=0.25).fit(X, y)
    path = clf.save(tmp_path / "policy")
    assert [one.name for one in tmp_path.iterdir()] == ["policy.safetensors"]
    again = AcquisitionClassifier.load(path)
    assert again.get_params() == clf.get_params()
    assert again.classes_.dtype == clf.classes_.dtype
    assert again.feature_names_in_.tolist() == clf.feature_names_in_.tolist()
    assert np.array_equal(again.predict(X), clf.predict(X))
    assert np.array_equal(again.predict_proba(X), clf.predict_proba(X))
    assert np.array_equal(again.acquire(X).requested, clf.acquire(X).requested)
    assert again.history_ == clf.history_
    assert again.model_.fingerprint == clf.model_.fingerprint
    assert clone(again).fit(X, y).score(X, y) == clf.score(X, y)


def test_weights_of_classes_and_random_states_survive_a_file(tmp_path):
    X, y = made(n_features=1)
    clf = quick(class_weight={0: 1.0, 1: 2.0}, random_state=np.random.RandomState(4)).fit(X[:, 0], y)
    again = AcquisitionClassifier.load(clf.save(tmp_path / "one.safetensors"))
    assert again.class_weight == {0: 1.0, 1: 2.0}
    assert again.random_state == clf.model_.card.spec.seed
    assert again.n_features_in_ == 6
    assert np.array_equal(again.predict_proba(X[:, 0]), clf.predict_proba(X[:, 0]))


def test_the_file_is_also_a_model(fitted, tmp_path):
    assert ww.load_model(fitted.save(tmp_path / "m")).card.classes == ("0", "1")


def test_files_of_others_are_refused(fitted, tmp_path):
    ww.save_model(tmp_path / "bare.safetensors", fitted.model_)
    save_file({"x": torch.zeros(1)}, tmp_path / "other.safetensors")
    (tmp_path / "text.safetensors").write_text("no")
    for name in ("bare", "other", "text", "nowhere"):
        with pytest.raises(RunFolderError, match=name) as caught:
            AcquisitionClassifier.load(tmp_path / name)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "edit",
    [
        lambda facts: facts.pop("classes"),
        lambda facts: facts["classes"].append(7),
        lambda facts: facts.update(dtype="M8[s]"),
        lambda facts: facts["parameters"].update(unknown=1),
        lambda facts: facts["parameters"].pop("menu"),
        lambda facts: facts["parameters"].update(menu={"features": [], "orders": []}),
    ],
    ids=["no classes", "more classes", "dates", "unknown parameter", "no menu", "empty menu"],
)
def test_edited_files_are_refused(edit, fitted, tmp_path):
    path = fitted.save(tmp_path / "m.safetensors")
    with safe_open(path, "pt") as file:
        notes, tensors = file.metadata(), {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    facts = json.loads(notes["estimator"])
    edit(facts)
    save_file(tensors, path, notes | {"estimator": json.dumps(facts)})
    with pytest.raises(RunFolderError, match=r"m\.safetensors holds no whole classifier") as caught:
        AcquisitionClassifier.load(path)
    assert "\n" not in str(caught.value)


def test_a_file_that_can_t_be_written_is_told(fitted, tmp_path):
    with pytest.raises(RunFolderError, match="can't be written"):
        fitted.save(tmp_path / "none" / "m.safetensors")


# mistakes


def refused(action, *words):
    with pytest.raises(ValueError, match=".*".join(words)) as caught:
        action()
    assert "\n" not in str(caught.value)
    assert isinstance(caught.value, ww.WhichwhenError)


def test_x_of_other_shapes_is_refused():
    X, y = made()
    for strange in (X[None], X[0, 0], np.zeros((40, 4, 0)), np.zeros((40, 0, 3))):
        refused(lambda strange=strange: quick().fit(strange, y), r"X (with|of shape)", r"\(series, features, time\)")
    refused(lambda: quick().fit([X[0], X[1, :3]], y[:2]), "of 3 and of 4 features")
    refused(lambda: quick().fit([X[0], X[None, 1]], y[:2]), r"series 1 of shape \(1, 4, 6\)")
    refused(lambda: quick().fit(X[:, :, :1], y), "series 0 with 1 step", "at least 2")


def test_other_features_at_predict_are_refused(fitted):
    X, _ = made()
    words = ("X has 3 features", "AcquisitionClassifier is expecting 4 features as input")
    for act in (fitted.predict, fitted.predict_proba, fitted.acquire):
        refused(lambda act=act: act(X[:, :3]), *words)
        refused(lambda act=act: act(list(X[:, :3])), *words)
    refused(lambda: fitted.predict(X[:, 0]), "X has 1 features", "2-D X", "expecting 4")


def test_values_that_are_no_numbers_are_refused(fitted):
    X, y = made()
    for bad in (np.inf, -np.inf, 1e300):
        X[2, 1, 3] = bad
        refused(lambda: quick().fit(X, y), "in series 2, feature 1, step 3 of X", "finite")
        refused(lambda: fitted.predict(X), "in series 2, feature 1, step 3 of X")
        refused(lambda: fitted.predict(list(X)), "in series 2, feature 1, step 3 of X")


def test_a_feature_that_is_never_measured_is_refused():
    X, y = made()
    X[:, 2] = np.nan
    refused(lambda: quick().fit(X, y), "feature 'x2' is NaN in all series")


def test_labels_and_weights_that_do_not_fit_are_refused(fitted):
    X, y = made()
    refused(lambda: quick().fit(X, y[:-1]), "y of 39 for 40 series")
    refused(lambda: quick().fit(X), "requires y to be passed")
    refused(lambda: quick().fit(X, np.zeros(40)), "1 class", "at least 2")
    refused(lambda: fitted.score(X, y + 1), "label 2 in y", "one of 0, 1")
    refused(lambda: fitted.score(X, y.astype(str)), "label '0' in y")
    refused(lambda: quick().fit(X, y, sample_weight=np.ones(3)), "sample_weight of 3 for 40")
    refused(lambda: quick().fit(X, y, sample_weight=-np.ones(40)), "sample_weight of -1")
    refused(lambda: quick().fit(X, y, groups=[1, 2]), "groups of 2 for 40")


def test_too_few_series_for_validation_are_refused():
    X, y = made(3)
    refused(lambda: quick().fit(X, y), "1 training series in the smallest class", "every class in at least two groups")


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"budget": 5}, "budget 5 per step for a menu of 4 orders"),
        ({"budget": 0}, "budget is 0"),
        ({"acquirer": "oracle"}, "oracle"),
        ({"acquirer": "best"}, "acquirer.kind"),
        ({"predictor": "mlp"}, "predictor.kind"),
        ({"effort": 0}, "effort is 0"),
        ({"effort": "normal", "settings": {"training__epochs": 0}}, "epochs is 0"),
        ({"settings": {"training__epochs": 3}}, "effort and epochs together"),
        ({"settings": {"training__warm_up": 3}}, "warm-up without epochs"),
        ({"validation": 1.5}, "validation is 1.5"),
        ({"total": 0.5}, "total of 0.5"),
        ({"total": 5, "price": 1}, "price and total together"),
        ({"menu": ["a"]}, "menu of type list"),
        ({"settings": {"memory": 3}}, "'memory'"),
        ({"settings": {"acquirer__memories": 3}}, "memories"),
        ({"random_state": -1}, "seed is -1"),
        ({"menu": ww.Menu.one_per_feature([ww.Feature("a")])}, r"X has 4 features and the menu 1 \(a\)"),
    ],
)
def test_parameters_out_of_range_are_told_at_fit(parameters, words):
    clf = AcquisitionClassifier(**(QUICK | parameters))
    refused(lambda: clf.fit(*made()), words)
    with pytest.raises((ParameterError, InputError)) as caught:
        clf.fit(*made())
    assert "--" not in str(caught.value)
    with pytest.raises(NotFittedError):
        clf.predict(made()[0])


def test_after_a_fit_that_failed_it_is_not_fitted():
    X, y = made()
    clf = quick().fit(X, y)
    with pytest.raises(InputError):
        clf.fit(X[:, :, :1], y)
    with pytest.raises(NotFittedError):
        clf.session()
