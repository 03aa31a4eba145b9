"""The page is looked at in the system's own browser, as a user would."""

import json
import re
import shutil
from pathlib import Path

import pytest

from support import TINY, TRAIN_TINY
from whichwhen import artifacts
from whichwhen.cli import main
from whichwhen.data import load_dataset, synthetic
from whichwhen.errors import DataWarning
from whichwhen.reports.grid import load_any, record_figures
from whichwhen.reports.page import write_page
from whichwhen.specs import DataSpec

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
NAMES = ("learned", "random")


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A folder with two finished runs."""
    folder = tmp_path_factory.mktemp("runs")
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(synthetic.TASKS, "tiny", TINY)
        for name in NAMES:
            words = ("train", "synthetic:tiny", "--epochs", "2", "--batch-size", "16", "--budget", "1", "--quiet", "--json")
            sizes = ("--width", "4", "--layers", "1", "--fakes", "noise", "--n-fakes", "3")
            assert main([*words, *sizes, "--acquirer", name, "--out", str(folder / name)]) == 0
    return folder


@pytest.fixture
def tiny_task(monkeypatch):
    monkeypatch.setitem(synthetic.TASKS, "tiny", TINY)


def write(folder, path, *words):
    assert main(["report", str(folder), "--out", str(path), *words]) == 0
    return path.read_text(encoding="utf-8")


def content(text):
    return json.loads(re.search(r'<script id="data" type="application/json">(.*?)</script>', text, re.S)[1])


def test_the_page_stands_alone(runs, tmp_path):
    text = write(runs, tmp_path / "page.html")
    assert not re.search(r"""(src|href)=(?!["']?data:)""", text)
    assert not re.search(r"@import|url\(|https?://", text)
    assert "default-src 'none'" in text
    assert "{{" not in text


def test_numbers_are_those_of_the_runs(runs, tmp_path):
    text = write(runs, tmp_path / "page.html")
    shown = {record["acquirer"]: record for record in content(text)}
    assert set(shown) == set(NAMES)
    for name in NAMES:
        test = artifacts.load_result(runs / name)["test"]
        assert shown[name]["accuracy"] == test["accuracy"]
        assert f"<td>{test['accuracy']:.3f}</td>" in text


def test_values_and_ids_of_single_series_stay_out_unless_asked_for(runs, tmp_path, tiny_task):
    data = load_dataset(DataSpec(name="synthetic:tiny", fakes="noise", n_fakes=3), 0)
    plain, full = write(runs, tmp_path / "a.html"), write(runs, tmp_path / "b.html", "--values")
    assert all("values" not in sample for record in content(plain) for sample in record["samples"])
    assert {sample["name"] for record in content(plain) for sample in record["samples"]} == {"sample 1", "sample 2", "sample 3"}
    found = 0
    for record in content(full):
        for sample in record["samples"]:
            series = data.test.series(list(data.test.ids).index(int(sample["name"].removeprefix("id "))))
            for t, row in enumerate(sample["values"]):
                there = [k for k, value in enumerate(row) if value is not None]
                assert len(there) == 1  # the budget
                assert row[there[0]] == pytest.approx(series[t, there[0]], abs=6e-4)
                found += 1
    assert found
    assert "samples synthetic tiny" in full
    assert "samples synthetic tiny" not in plain


def test_text_from_the_data_can_not_break_out_of_the_page(runs, tmp_path, monkeypatch):
    from whichwhen.reports import page

    evil = "</script><script>alert(1)</script>"
    records = page.first_seeds(_records(runs))
    changed = [
        {**record, "pattern": {**record["pattern"], "orders": [evil] * len(record["pattern"]["orders"])}} for record in records
    ]
    page.write_page(changed, tmp_path / "page.html", evil)
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert evil not in text
    assert content(text)[0]["orders"][0] == evil


def _records(runs):
    return load_any(runs)


def test_a_single_run_is_a_page_too_and_something_else_is_not(runs, tmp_path, capsys):
    assert len(content(write(runs / "learned", tmp_path / "page.html"))) == 1
    (tmp_path / "empty").mkdir()
    assert main(["report", str(tmp_path / "empty")]) == 2
    assert "neither records nor finished runs" in capsys.readouterr().err
    assert main(["report", str(tmp_path / "nowhere")]) == 2
    assert "no folder" in capsys.readouterr().err


def test_a_page_of_a_single_run_says_its_budget_and_has_no_empty_section(runs, tmp_path):
    text = write(runs / "learned", tmp_path / "page.html")
    (shown,) = content(text)
    assert shown["budget"] == "budget 1 per step"
    assert "budget 1 per step: test accuracy" in text
    assert "Differences between acquirers" not in text
    assert "<h2>Figures</h2>" not in text
    assert "<h2>Figures</h2>" in write(runs, tmp_path / "both.html")


def test_what_was_kept_and_what_the_other_gives_is_on_the_page(runs, tmp_path):
    choice = [
        {"title": "learned", "acquirer": "learned-only", "kept": False, "test": {"accuracy": 0.91}},
        {"title": "round robin of 5", "acquirer": "round-robin", "kept": True, "test": {"accuracy": 0.93}},
    ]
    choice = [row | {"kept_minus_this": 0.02, "standard_error": 0.01} for row in choice]
    records = [record | ({"candidates": choice} if record["acquirer"] == "learned" else {}) for record in _records(runs)]
    write_page(records, tmp_path / "page.html", "title")
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    learned, other = sorted(content(text), key=lambda record: record["kind"])
    assert learned["acquirer"] == "learned (kept round robin of 5)"
    assert "kept round robin of 5: 0.930; learned would have given 0.910 (difference +0.020 ± 0.010)" in learned["kept"]
    assert other["kept"] == ""
    for cell in ("learned (kept round robin of 5)", "the network", "0.910", "+0.020 ± 0.010"):
        assert f"<td>{cell}</td>" in text
    patterns = [figure for name, figure in record_figures(records).items() if name.startswith("pattern")]
    assert [[panel.get_title() for panel in figure.axes[:2]] for figure in patterns] == [
        ["random", "learned (kept round robin of 5)"]
    ]


def test_runs_that_differ_in_their_budget_are_all_on_the_page(runs, tmp_path, tiny_task):
    shutil.copytree(runs / "learned", tmp_path / "runs" / "one")
    words = (*TRAIN_TINY, "--fakes", "noise", "--n-fakes", "3", "--out", str(tmp_path / "runs" / "two"))
    assert main([*words, "--budget", "2"]) == 0
    shown = content(write(tmp_path / "runs", tmp_path / "page.html"))
    assert {record["acquirer"]: record["cost"] for record in shown} == {
        "learned, budget 1 per step": pytest.approx(1),
        "learned, budget 2 per step": pytest.approx(2),
    }


def test_runs_that_differ_in_anything_else_are_told_apart_by_their_folders(runs, tmp_path):
    for name in ("one", "two"):
        shutil.copytree(runs / "learned", tmp_path / "runs" / name)
    shutil.copytree(runs / "random", tmp_path / "runs" / "random")
    shown = content(write(tmp_path / "runs", tmp_path / "page.html"))
    assert [record["acquirer"] for record in shown] == ["learned, one", "random", "learned, two"]


def test_an_unfinished_run_is_called_so_with_the_way_to_finish_it(runs, tmp_path, capsys):
    half = tmp_path / "runs" / "half"
    shutil.copytree(runs / "learned", half)
    (half / artifacts.RESULT).unlink()
    for folder in (half, tmp_path / "runs"):
        assert main(["report", str(folder)]) == 2
        message = capsys.readouterr().err
        assert f"{half} is half written" in message
        assert f"finish it with `whichwhen train --spec {half / artifacts.SPEC} --out {half} --resume`" in message
    shutil.copytree(runs / "random", tmp_path / "runs" / "random")
    with pytest.warns(DataWarning, match="left out, as they are not finished: half"):
        (found,) = load_any(tmp_path / "runs")
    assert found["acquirer"] == "random"


# -- in the browser


@pytest.fixture(scope="module")
def browser():
    program = next(filter(None, map(shutil.which, BROWSERS)), None)
    if program is None:
        pytest.skip("no Chromium on this machine: the page is not looked at (Debian: apt-get install chromium)")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield started
        started.close()


@pytest.fixture
def page(browser, runs, tmp_path):
    """The page in the browser; afterwards: no error, and nothing was fetched."""
    write(runs, tmp_path / "page.html")
    shown = browser.new_page(viewport={"width": 1000, "height": 800})
    troubles = []
    shown.on("console", lambda message: troubles.append(message.text))
    shown.on("pageerror", lambda error: troubles.append(str(error)))
    shown.on("request", lambda request: troubles.append(request.url) if request.url.startswith("http") else None)
    shown.goto(Path(tmp_path / "page.html").as_uri())
    facts_say(shown, "accuracy")
    yield shown
    shown.close()
    assert troubles == []


def facts_say(page, text):
    from playwright.sync_api import expect

    expect(page.locator("#facts")).to_contain_text(text)


def hover(page, step, order, steps=5, orders=7):
    """What the tooltip says over a cell."""
    box = page.locator("#map").bounding_box()
    left, top, right, bottom = 92, 8, 6, 34
    x = box["x"] + left + (step + 0.5) * (box["width"] - left - right) / steps
    y = box["y"] + top + (order + 0.5) * (box["height"] - top - bottom) / orders
    page.mouse.move(x, y)
    return page.locator("#tip").inner_text()


def test_the_learned_acquirer_is_shown_first_and_the_pickers_change_it(page, runs):
    assert page.locator("#acquirer").input_value() == "learned"
    for name in ("random", "learned"):
        page.select_option("#acquirer", name)
        accuracy = artifacts.load_result(runs / name)["test"]["accuracy"]
        facts_say(page, f"accuracy {accuracy:.3f}")


def test_hovering_tells_the_share_of_each_cell(page, runs):
    pattern = artifacts.load_pattern(runs / "learned")
    shares = pattern["share"].to_numpy().reshape(5, -1)
    real = pattern["real"].to_numpy().reshape(5, -1)
    names = pattern["order"].to_list()
    for step, order in ((0, 0), (2, 3), (4, 6)):
        text = hover(page, step, order)
        assert text.startswith(f"step {step}, {names[order]} ({'real' if real[step, order] else 'fake'}): requested by")
        share = float(re.search(r"requested by ([\d.]+) %", text)[1]) / 100
        assert share == pytest.approx(shares[step, order], abs=0.006)
    page.mouse.move(5, 5)
    assert not page.locator("#tip").is_visible()


def test_classes_and_samples_can_be_picked(page, runs):
    table = artifacts.load_class_pattern(runs / "learned")
    label = table["class"].unique(maintain_order=True).to_list()[1]
    page.select_option("#series", "class:1")
    rows = table.filter((table["class"] == label) & (table["step"] == 1))
    share = rows["requested"].to_numpy() / rows["going"].to_numpy()
    k = int(share.argmax())
    facts_say(page, f"{rows['going'][0]} series")
    found = float(re.search(r"requested by ([\d.]+) %", hover(page, 1, k))[1]) / 100
    assert found == pytest.approx(share[k], abs=0.006)

    samples = artifacts.load_samples(runs / "learned")
    first = samples.filter(samples["id"] == samples["id"][0])
    page.select_option("#series", "sample:0")
    facts_say(page, f"predicted as {first['prediction'][0]}")
    asked = first.filter(first["step"] == 2)["orders"][0].to_list()
    for k, name in enumerate(artifacts.load_pattern(runs / "learned")["order"].to_list()[:7]):
        said = hover(page, 2, k).split(": ")[1]
        assert said == ("requested" if name in asked else "not requested")


def test_the_page_fits_a_narrow_screen(page):
    page.set_viewport_size({"width": 420, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
