"""Build the wheel, install it into an empty environment beside this one's packages, and use it there."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def run(*words: str, cwd: Path = ROOT) -> str:
    """Run a command; its output."""
    return subprocess.run(words, cwd=cwd, check=True, text=True, stdout=subprocess.PIPE).stdout


def main() -> None:
    """Fail loudly where the wheel lacks something."""
    with tempfile.TemporaryDirectory() as name:
        box = Path(name)
        run(sys.executable, "-m", "build", "--wheel", "--outdir", str(box))
        (wheel,) = box.glob("*.whl")
        content = zipfile.ZipFile(wheel).namelist()
        for wanted in (
            "whichwhen/py.typed",
            "whichwhen/cli/__init__.py",
            "whichwhen/reports/page.html",
            "whichwhen/predictors/conv.py",
        ):
            if wanted not in content:
                sys.exit(f"the wheel lacks {wanted}")
        run(sys.executable, "-m", "venv", str(box / "venv"))
        python = str(box / "venv" / "bin" / "python")
        run(python, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", str(wheel))
        # the dependencies are those of this environment: what is tried here is the wheel
        paths = run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip()
        Path(paths, "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
        script = str(box / "venv" / "bin" / "whichwhen")
        print(run(script, "--version", cwd=box).strip(), "from", wheel.name)
        run(script, "data", "japanese-vowels", "--json", cwd=box)
        home = run(python, "-c", "import whichwhen; print(whichwhen.__file__)", cwd=box).strip()
        if not home.startswith(str(box)):
            sys.exit(f"whichwhen came from {home}, not from the wheel")
    print("the wheel builds, installs and runs")


if __name__ == "__main__":
    main()
