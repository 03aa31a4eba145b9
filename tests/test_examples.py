"""What a newcomer copies and runs has to run."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


def run_python(*words: str, folder: Path) -> str:
    """What a fresh interpreter prints, or a failure with what it said."""
    environment = {name: value for name, value in os.environ.items() if name != "WHICHWHEN_DATA"}
    done = subprocess.run([sys.executable, *words], capture_output=True, text=True, cwd=folder, env=environment, timeout=600)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_the_examples_run_anywhere_and_leave_nothing_behind(path: Path, tmp_path: Path) -> None:
    assert run_python(str(path), folder=tmp_path)
    assert not list(tmp_path.iterdir())


def test_the_first_lines_of_python_in_the_readme_run_with_less_effort(tmp_path: Path) -> None:
    first = re.search(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert first is not None
    quick = 'effort="quick"'
    assert first.group(1).count(quick) == 1
    printed = run_python("-c", first.group(1).replace(quick, "effort=0.01"), folder=tmp_path)
    assert "accuracy" in printed
    assert (tmp_path / "runs" / "vowels" / "result.json").is_file()
