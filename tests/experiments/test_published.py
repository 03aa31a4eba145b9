"""What is published under ``results/`` can be made again: each record is a run of its grid, as the grid is now."""

import json
from pathlib import Path

import pytest

from whichwhen.experiments.adaptive import adaptive_grid
from whichwhen.experiments.paper import paper_grid

RESULTS = Path(__file__).parents[2] / "results"
GRIDS = {"paper": paper_grid, "adaptive": adaptive_grid}
PUBLISHED = sorted(path.parent.name for path in RESULTS.glob("*/records"))


def test_every_folder_of_records_is_that_of_a_grid():
    assert "paper" in PUBLISHED
    assert set(PUBLISHED) <= GRIDS.keys()


@pytest.mark.parametrize("folder", PUBLISHED)
def test_every_record_is_a_run_of_its_grid(folder):
    grid = {job.name: job.spec.hash for job in GRIDS[folder]()}
    records = [json.loads(path.read_text()) for path in sorted((RESULTS / folder / "records").glob("*.json"))]
    assert records
    assert {r["name"]: r["spec_hash"] for r in records if grid.get(r["name"]) != r["spec_hash"]} == {}
