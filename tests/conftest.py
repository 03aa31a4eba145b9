import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import pytest
import torch
from hypothesis import settings

from builders import tiny_dataset, tiny_spec
from whichwhen.data import Dataset
from whichwhen.specs import RunSpec

torch.set_num_threads(1)
settings.register_profile("untimed", deadline=None)  # how long an example takes says more about the machine than about the code
settings.load_profile("untimed")


@pytest.fixture(scope="session")
def tiny_data() -> Dataset:
    return tiny_dataset()


@pytest.fixture
def spec() -> RunSpec:
    return tiny_spec()
