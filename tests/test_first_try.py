"""The first tries of new users, here and from a built wheel."""

from __future__ import annotations

import os
import site
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from first_tries import TRIES

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize("name", TRIES)
def test_first_try(name):
    TRIES[name]()


@pytest.mark.outside  # builds a wheel
@pytest.mark.same_everywhere
def test_from_a_wheel(tmp_path):
    """Only the wheel is geartrain; its dependencies are those of this environment."""
    clean = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    build = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", tmp_path, ROOT]
    subprocess.run(build, check=True, env=clean)
    (wheel,) = tmp_path.glob("geartrain-*.whl")
    venv.create(tmp_path / "env", with_pip=False)
    python = tmp_path / "env" / "bin" / "python"
    (packages,) = (tmp_path / "env" / "lib").glob("python*/site-packages")
    into = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", packages, wheel]
    subprocess.run(into, check=True, env=clean)
    (packages / "others.pth").write_text("\n".join(site.getsitepackages()))
    script = Path(__file__).with_name("first_tries.py")
    done = subprocess.run(
        [python, script], cwd=tmp_path, env=clean, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert str(packages) in done.stdout and done.stdout.count("ok try_") == len(TRIES)
