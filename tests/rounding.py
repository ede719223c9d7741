"""Other machines: every counted answer is moved by at most one unit in its last place.

Another processor rounds otherwise. ``GEARTRAIN_TEST_SALT=7 pytest`` imitates one: an entry of an
answer keeps its bits or moves to a neighbouring number, as a fixed function of its bits and of the
salt, so two runs of one process still agree to the bit. Every salt is another machine.
"""

from __future__ import annotations

import os

import numpy as np
import pytest

from geartrain.oracles.ledger import Oracle
from geartrain.oracles.protocols import extended_valued

VARIABLE = "GEARTRAIN_TEST_SALT"
_BITS = {np.dtype(np.float64): np.uint64, np.dtype(np.float32): np.uint32}


def _mixed(bits, salt):
    """Steele, Lea and Flood's splitmix64: 64 bits of which every one depends on all of `bits`."""
    z = bits + np.uint64((salt + 1) * 0x9E3779B97F4A7C15 % 2**64)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def moved(answer, salt):
    """`answer` with every float32 or float64 in it moved; zeros and what is not finite stay."""
    if type(answer) in (tuple, list):
        return type(answer)(moved(part, salt) for part in answer)
    if type(answer) is float:
        return float(moved(np.array([answer]), salt)[0])
    if isinstance(answer, np.floating):
        return moved(np.array([answer]), salt)[0]
    if type(answer) is not np.ndarray or answer.dtype not in _BITS:
        return answer
    bits = np.array(answer, order="C").reshape(-1).view(_BITS[answer.dtype])
    # The bits of a float are those of its size behind a sign: the next integer is the next size.
    step = (_mixed(bits.astype(np.uint64), salt) % np.uint64(3)).astype(bits.dtype)
    other = (bits + step - bits.dtype.type(1)).view(answer.dtype)
    other = other.reshape(answer.shape)
    moves = (answer != 0.0) & np.isfinite(answer) & np.isfinite(other)
    return np.where(moves, other, answer)


class Rounding:
    """While it is entered, the counted oracles of the library answer as the machine `salt` would.

    What ends an answer with a projection is left alone: every machine puts it on the set.
    """

    def __init__(self, salt):
        self.salt = salt

    def __enter__(self):
        own = self._own = Oracle._own

        def as_elsewhere(oracle, question, fn):
            if question.name == "prox" and extended_valued(oracle.term):
                return own(oracle, question, fn)
            return own(oracle, question, lambda *args: moved(fn(*args), self.salt))

        Oracle._own = as_elsewhere

    def __exit__(self, *_):
        Oracle._own = self._own


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    """Run a test on the machine that is asked for, unless its outcome is the same everywhere."""
    salt = os.environ.get(VARIABLE)
    if not salt or item.get_closest_marker("same_everywhere"):
        return (yield)
    with Rounding(int(salt)):
        return (yield)


def pytest_report_header(config):
    salt = os.environ.get(VARIABLE)
    return f"counted answers are moved by {VARIABLE}={salt}" if salt else None
