"""What is published under ``results/`` can be made again: each record is a run of its grid, as the grid is now."""

import json
from pathlib import Path

import pytest

from whichwhen.experiments import clinical
from whichwhen.experiments.ablations import ablation_grid
from whichwhen.experiments.adaptive import adaptive_grid
from whichwhen.experiments.assumptions import assumptions_grid
from whichwhen.experiments.paper import paper_grid

RESULTS = Path(__file__).parents[2] / "results"


def both_presets():
    return paper_grid("paper") + paper_grid("best")


GRIDS = {
    "paper": both_presets,
    "clinical": clinical.clinical_grid,
    "ablations": ablation_grid,
    "adaptive": adaptive_grid,
    "assumptions": assumptions_grid,
}


def records_of(folder):
    return [json.loads(path.read_text()) for path in sorted((RESULTS / folder / "records").glob("*.json"))]


@pytest.fixture
def full_budgets(monkeypatch):
    """What the clinical records say that everything costs, so that nobody has to read the archives."""
    full = {record["dataset"]: record["spec"]["budget"]["total"] / clinical.OWN_FRACTION for record in records_of("clinical")}
    monkeypatch.setattr(clinical, "full_budget", lambda name, folder=None: full[name])


@pytest.mark.parametrize("folder", GRIDS)
@pytest.mark.usefixtures("full_budgets")
def test_every_record_is_a_run_of_its_grid(folder):
    grid = {job.name: job.spec.hash for job in GRIDS[folder]()}
    records = records_of(folder)
    assert records
    assert {r["name"]: r["spec_hash"] for r in records if grid.get(r["name"]) != r["spec_hash"]} == {}
