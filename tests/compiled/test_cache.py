"""Compiled code on disk that is older than the sources is not read."""

import os

import pytest

from geartrain.compiled import forget_stale

pytestmark = pytest.mark.same_everywhere  # files


def test_only_code_older_than_a_module_is_deleted(tmp_path):
    cache = tmp_path / "__pycache__"
    cache.mkdir()
    for name, time in (("loops.py", 100), ("losses.py", 200)):
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (time, time))
    for name, time in (("old.nbi", 150), ("new.nbi", 250), ("old.pyc", 150)):
        (cache / name).touch()
        os.utime(cache / name, (time, time))
    forget_stale(tmp_path)
    assert {path.name for path in cache.iterdir()} == {"new.nbi", "old.pyc"}


def test_a_folder_that_is_gone_is_no_error(tmp_path):
    (tmp_path / "loops.py").touch()
    forget_stale(tmp_path)
    forget_stale(tmp_path / "nowhere")
