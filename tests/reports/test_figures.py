import itertools
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from PIL import Image

from builders import tiny_dataset
from support import contents
from whichwhen.data import load_dataset
from whichwhen.errors import SpecError
from whichwhen.evaluation import Reliability
from whichwhen.reports.figures import draw_curves, draw_patterns, draw_reliability, draw_samples, save_figure


def pattern(shares: np.ndarray, real: np.ndarray) -> pl.DataFrame:
    steps, orders = shares.shape
    return pl.DataFrame(
        {
            "step": np.repeat(np.arange(steps), orders),
            "order": [f"x{k}" for _ in range(steps) for k in range(orders)],
            "share": shares.ravel(),
            "real": real.ravel(),
        }
    )


SHARES = np.array([[0.0, 1.0, 0.25], [1.0, 0.0, 0.5]])
REAL = np.array([[False, True, False], [True, False, False]])


def history(epochs: int, best: tuple[int, ...] = (1,)) -> list[dict[str, Any]]:
    return [
        {
            "epoch": i,
            "loss": 1 / i,
            "accuracy": 0.5,
            "validation_loss": 2 / i,
            "validation_accuracy": 0.4,
            "best": i in best,
        }
        for i in range(1, epochs + 1)
    ]


def panels(figure: Figure) -> list[Axes]:
    return [axes for axes in figure.axes if axes.get_label() != "<colorbar>"]


def segments(axes: Axes) -> set[tuple[tuple[float, float], ...]]:
    lines = next(found for found in axes.collections if isinstance(found, LineCollection))
    return {tuple(sorted((float(x), float(y)) for x, y in segment)) for segment in lines.get_segments()}


# acquisition patterns


def test_a_pattern_shows_time_across_and_orders_down() -> None:
    (panel,) = panels(draw_patterns({"learned": pattern(SHARES, REAL)}))
    np.testing.assert_array_equal(panel.images[0].get_array(), SHARES.T)
    assert panel.get_title() == "learned"
    assert panel.get_xlabel() == "time step"
    assert [label.get_text() for label in panel.get_yticklabels()] == ["x0", "x1", "x2"]
    assert panel.images[0].get_clim() == (0, 1)


def test_the_outline_goes_around_the_real_features() -> None:
    def around(step: int, order: int) -> set[tuple[tuple[float, float], ...]]:
        left, right, top, bottom = step - 0.5, step + 0.5, order - 0.5, order + 0.5
        corners = [(left, top), (right, top), (right, bottom), (left, bottom), (left, top)]
        return {tuple(sorted(pair)) for pair in itertools.pairwise(corners)}

    (panel,) = panels(draw_patterns({"learned": pattern(SHARES, REAL)}))
    assert segments(panel) == around(0, 1) | around(1, 0)


def test_no_outline_where_all_is_real() -> None:
    (panel,) = panels(draw_patterns({"learned": pattern(SHARES, np.ones_like(REAL))}))
    assert not panel.collections


def test_runs_stand_side_by_side_each_with_its_own_pattern() -> None:
    runs = {name: pattern(SHARES * scale, REAL) for name, scale in (("random", 0.5), ("static", 0.1), ("learned", 1.0))}
    drawn = panels(draw_patterns(runs))
    assert [panel.get_title() for panel in drawn] == ["random", "static", "learned"]
    for panel, scale in zip(drawn, (0.5, 0.1, 1.0), strict=True):
        np.testing.assert_allclose(panel.images[0].get_array(), SHARES.T * scale)


def test_runs_over_different_orders_are_not_labelled_with_each_others() -> None:
    wide, high = np.full((2, 3), 0.5), np.full((2, 5), 0.5)
    other = pattern(high, high > 0).with_columns(order=pl.col("order").str.replace("x", "y"))
    first, second = panels(draw_patterns({"a": pattern(wide, wide > 0), "b": other}))
    assert [label.get_text() for label in first.get_yticklabels()] == ["x0", "x1", "x2"]
    assert [label.get_text() for label in second.get_yticklabels()] == ["y0", "y1", "y2", "y3", "y4"]


# training curves


def lines(axes: Axes) -> dict[str, tuple[list[float], list[float]]]:
    return {str(line.get_label()): (list(line.get_xdata()), list(line.get_ydata())) for line in axes.get_lines()}


def test_curves_show_loss_above_accuracy_and_the_chosen_epoch() -> None:
    top, bottom = panels(draw_curves({"learned": history(4, best=(1, 3))}, {}))
    assert lines(top)["training"] == ([1, 2, 3, 4], [1, 1 / 2, 1 / 3, 1 / 4])
    assert lines(top)["validation"] == ([1, 2, 3, 4], [2, 1, 2 / 3, 1 / 2])
    assert lines(bottom)["validation"] == ([1, 2, 3, 4], [0.4] * 4)
    assert lines(top)["chosen epoch"][0] == [3, 3]
    assert "test" not in lines(bottom)
    assert "nats" in top.get_ylabel()


def test_the_test_curve_is_drawn_only_where_it_was_computed() -> None:
    drawn = panels(draw_curves({"a": history(3), "b": history(3)}, {"b": [0.1, 0.2, 0.3]}))
    assert ["test" in lines(panel) for panel in drawn] == [False, False, False, True]
    assert lines(drawn[3])["test"] == ([1, 2, 3], [0.1, 0.2, 0.3])
    assert [panel.get_title() for panel in drawn[:2]] == ["a", "b"]


def test_a_single_epoch_can_be_drawn(tmp_path: Path) -> None:
    save_figure(draw_curves({"a": history(1)}, {}), tmp_path / "a.png")
    assert looks_drawn(tmp_path / "a.png")


def recipe_history(*rounds: tuple[str, int], loss: float = 1.0) -> list[dict[str, Any]]:
    """Lines as the recipe writes them: a loss that falls by a tenth with each."""
    return [
        {
            "epoch": i,
            "phase": phase,
            "step": step,
            "loss": loss / 2,
            "accuracy": 0.5,
            "validation_loss": round(loss - 0.1 * i, 3),
            "validation_accuracy": round(0.1 * i, 3),
            "best": True,
        }
        for i, (phase, step) in enumerate(rounds, start=1)
    ]


NETWORK_AND_RULE = (
    *(("warm-up", 100), ("joint", 200), ("joint", 250)),
    *(("settle", 200), ("settle", 400), ("rule", 200), ("rule", 650)),
)


def without_gaps(line: tuple[list[float], list[float]]) -> list[tuple[float, float]]:
    return [(float(x), round(float(y), 3)) for x, y in zip(*line, strict=True) if x == x]


def test_the_recipe_is_drawn_over_the_optimiser_steps_that_each_policy_has_had() -> None:
    top, bottom = panels(draw_curves({"learned": recipe_history(*NETWORK_AND_RULE)}, {}))
    assert bottom.get_xlabel() == "optimiser steps"
    found = {name: without_gaps(line) for name, line in lines(top).items()}
    assert found["validation"] == [(100, 0.9), (300, 0.8), (350, 0.7), (550, 0.6), (750, 0.5)]
    assert [x for x, _ in found["training"]] == [100, 300, 350, 550, 750]
    assert found["validation, best rule"] == [(300, 0.4), (750, 0.3)]  # from the end of the warm-up on, to the same end
    assert without_gaps(lines(bottom)["validation, best rule"]) == [(300, 0.6), (750, 0.7)]


def test_lines_break_where_a_phase_begins() -> None:
    top, _ = panels(draw_curves({"learned": recipe_history(*NETWORK_AND_RULE)}, {}))
    steps = lines(top)["validation"][0]
    assert [x if x == x else None for x in steps] == [100, None, 300, 350, None, 550, 750]


def test_phases_are_named_between_the_panels_and_no_round_is_marked_as_chosen() -> None:
    network, rule = recipe_history(*NETWORK_AND_RULE), recipe_history(("warm-up", 100), ("settle", 650))
    drawn = panels(draw_curves({"learned": network, "static": rule}, {}))
    named = [{text.get_text(): text.get_position()[0] for text in panel.texts} for panel in drawn]
    assert named == [{"warm-up": 50, "joint": 225, "settling": 550}, {"warm-up": 50, "settling": 425}, {}, {}]
    for panel in drawn:
        assert "chosen epoch" not in lines(panel)
    assert "validation, best rule" not in lines(drawn[1])


def test_attempts_lie_over_each_other() -> None:
    (top, _) = panels(draw_curves({"learned": recipe_history(*NETWORK_AND_RULE, *NETWORK_AND_RULE)}, {}))
    steps = [x for x, _ in without_gaps(lines(top)["validation"])]
    assert steps == [100, 300, 350, 550, 750] * 2


def test_the_legend_names_each_kind_of_line_once_whatever_panel_it_is_in() -> None:
    figure = draw_curves({"learned": recipe_history(*NETWORK_AND_RULE), "a": history(3)}, {"a": [0.1, 0.2, 0.3]})
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == [
        *("training", "validation", "validation, best rule"),
        *("chosen epoch", "test"),
    ]


def test_a_short_run_of_the_recipe_can_be_drawn(tmp_path: Path) -> None:
    save_figure(draw_curves({"a": recipe_history(("warm-up", 1), ("settle", 1))}, {}), tmp_path / "a.png")
    assert looks_drawn(tmp_path / "a.png")


@pytest.mark.parametrize("count", [1, 2, 3, 40])
def test_ticks_are_whole_steps_and_epochs(count: int) -> None:
    shares = np.full((count, 2), 0.5)
    drawn = [*panels(draw_patterns({"a": pattern(shares, shares > 0)})), *panels(draw_curves({"a": history(count)}, {}))]
    for panel in drawn:
        assert all(tick == round(tick) for tick in panel.get_xticks())


# samples of the data


def test_samples_show_real_features_apart_from_fakes() -> None:
    data = load_dataset("japanese-vowels", fakes="noise", n_fakes=3, shift=True)
    figure = draw_samples(data)
    drawn = panels(figure)
    assert len(drawn) == 4
    assert len({panel.get_title() for panel in drawn[:2]}) == 2
    shown = drawn[2].images[0].get_array()
    row = int(drawn[0].get_title().split("series ")[1].split(",")[0])
    at = data.train.ids.tolist().index(row)
    np.testing.assert_array_equal(shown, data.train.series(at).T)
    assert f"class {data.classes[data.train.labels[at]]}" in drawn[0].get_title()
    assert len(segments(drawn[2])) > 0
    assert [text.get_text() for text in drawn[0].get_legend().get_texts()] == ["real", "fake"]


def test_samples_without_fakes_have_no_legend_for_them() -> None:
    figure = draw_samples(load_dataset("japanese-vowels"), count=1)
    assert [text.get_text() for text in panels(figure)[0].get_legend().get_texts()] == ["real"]


# files


def looks_drawn(path: Path) -> bool:
    with Image.open(path) as image:
        image.verify()
    with Image.open(path) as image:
        pixels = np.asarray(image.convert("L"), dtype=float)
    return min(pixels.shape) > 300 and pixels.std() > 5


def test_a_png_is_whole_and_not_blank(tmp_path: Path) -> None:
    path = tmp_path / "new" / "folder" / "pattern.png"
    save_figure(draw_patterns({"learned": pattern(SHARES, REAL)}), path)
    assert looks_drawn(path)
    assert [found.name for found in path.parent.iterdir()] == ["pattern.png"]


@pytest.mark.parametrize(("name", "start"), [("a.pdf", b"%PDF-"), ("a.svg", b"<?xml"), ("a.PNG", b"\x89PNG")])
def test_the_name_says_the_format(name: str, start: bytes, tmp_path: Path) -> None:
    save_figure(draw_samples(tiny_dataset()), tmp_path / name)
    assert (tmp_path / name).read_bytes().startswith(start)


@pytest.mark.parametrize("name", ["a.bmp", "a", "a.jpg", "png"])
def test_other_formats_are_refused_before_anything_is_made(name: str, tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=f"a figure called {name}; expected a name that ends in .png, .pdf, .svg"):
        save_figure(draw_samples(tiny_dataset()), tmp_path / "new" / name)
    assert contents(tmp_path) == {}


def test_a_figure_that_fails_leaves_the_old_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.png"
    path.write_bytes(b"old")
    figure = draw_samples(tiny_dataset())

    def fail(target: Path, **_: object) -> None:
        Path(target).write_bytes(b"half")
        raise RuntimeError("no")

    monkeypatch.setattr(figure, "savefig", fail)
    with pytest.raises(RuntimeError):
        save_figure(figure, path)
    assert contents(tmp_path) == {"a.png": b"old"}


@pytest.mark.parametrize(("fit", "end"), [(True, 0.3), (False, 1.0)])
def test_a_reliability_panel_ends_at_one_or_where_its_curves_do_whatever_bins_are_empty(fit: bool, end: float) -> None:
    nan = float("nan")
    numbers = (np.linspace(0, 1, 4), np.array([0.1, 0.25, nan]), np.array([0.05, 0.3, nan]))
    curve = Reliability(*numbers, np.array([5, 5, 0]), np.array([5.0, 5.0, 0.0]))
    (panel,) = draw_reliability({"a": {"one": curve}}, fit=fit).axes
    assert panel.get_xlim() == pytest.approx((-0.02 * end, 1.02 * end))
    assert panel.get_ylim() == pytest.approx((-0.02 * end, 1.02 * end))
