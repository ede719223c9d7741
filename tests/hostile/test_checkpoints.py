"""Damaged checkpoints: a sentence that names the file, which is left as it is."""

from __future__ import annotations

import numpy as np
import pytest

import geartrain as gt
from geartrain.core.checkpoint import CheckpointError
from runs import NEVER, sums

pytestmark = pytest.mark.same_everywhere  # bytes that are read

METHODS = ("sae", "pqn", "afb", "fgm", "katyusha", "lbfgs")


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory):
    """The files of some methods, by name."""
    folder = tmp_path_factory.mktemp("good")
    out = {}
    for method in METHODS:
        path = folder / f"{method}.gtck"
        gt.minimize(*sums(), method=method, stop=NEVER, max_iter=4, checkpoint=path)
        out[method] = path.read_bytes()
    return out


def damaged(good: bytes, other: bytes, rng: np.random.Generator) -> bytes:
    """`good` with one damage, never `good` itself."""
    kind, at = int(rng.integers(7)), int(rng.integers(len(good)))
    span = int(rng.integers(1, 200))
    out = bytearray(good)
    if kind == 0:
        out = out[:at]
    elif kind == 1:
        out[at] ^= 1 << int(rng.integers(8))
    elif kind == 2:
        out[at : at + span] = bytes(len(out[at : at + span]))
    elif kind == 3:
        out[at : at + span] = rng.bytes(len(out[at : at + span]))
    elif kind == 4:
        out += rng.bytes(span)
    elif kind == 5:
        out = out[:at] + other[at:]
    else:
        del out[at : at + span]
    return bytes(out) if bytes(out) not in (good, other) else damaged(good, other, rng)


@pytest.mark.parametrize("count", [60, pytest.param(850, marks=pytest.mark.long)])
def test_damaged_checkpoints_are_refused(tmp_path, checkpoints, count):
    rng = np.random.default_rng(850)
    path = tmp_path / "run.gtck"
    for k in range(count):
        method, other = METHODS[k % len(METHODS)], METHODS[(k + 1) % len(METHODS)]
        data = damaged(checkpoints[method], checkpoints[other], rng)
        path.write_bytes(data)
        with pytest.raises(CheckpointError) as caught:
            gt.resume(path, *sums())
        assert str(path) in str(caught.value) and len(str(caught.value)) < 600
        assert path.read_bytes() == data
