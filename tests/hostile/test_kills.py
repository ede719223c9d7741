"""A run that is killed at random moments resumes to the same answer."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import geartrain.methods.registry  # noqa: F401  whose classes a checkpoint holds
from geartrain.core.checkpoint import read

pytestmark = [
    pytest.mark.outside,  # processes that are killed
    pytest.mark.same_everywhere,  # a run is compared with itself
]

# A gradient of h is asked when the test has answered, so that a number of gradients says when to
# kill the job, on slow machines and on quick ones.
JOB = """
import os, sys
import numpy as np
import geartrain as gt
from scipy.optimize import LinearConstraint
rng = np.random.default_rng(1)
A = rng.standard_normal((40, 10))
g = gt.LinearModel(A, np.sign(A[:, 0]), loss="logistic", l2=0.01)
slow = gt.Quadratic(np.diag(np.linspace(0.05, 1.0, 10)), np.ones(10))
def grad(x):
    print("asked", flush=True)
    sys.stdin.readline()
    return slow.grad(x)
h = gt.Term(grad=grad, value=slow.value, n=10, L=1.0)
path, answer, method, inner, rows = sys.argv[1:]
words = {}
if rows:  # whose projections begin with the active set of the last one
    B, x = rng.standard_normal((int(rows), 10)), rng.random(10)
    words = {"constraints": LinearConstraint(B, -np.inf, B @ x), "bounds": (-0.5, 1.0)}
place = gt.callbacks.Checkpoint(path, every=0)
if os.path.exists(path):
    res = gt.resume(path, h, g, **words)
else:
    options = {**words, "inner": inner} if inner else words
    res = gt.minimize(h, g, method=method, tol=1e-6, seed=2, checkpoint=place, **options)
calls = str(sorted(res.calls.items()))
text = " ".join([res.x.tobytes().hex(), str(res.nit), calls, res.status.name])
with open(answer + ".part", "w") as file:
    file.write(text)
os.replace(answer + ".part", answer)
"""


def run_job(folder, method, kill_after=None, delay=0.0):
    """The answer of the job, or None if it was killed before, and the gradients it asked for."""
    answer = folder / "answer"
    command = [sys.executable, "-c", JOB, str(folder / "run.gtck"), str(answer), *method]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "bufsize": 0}
    one_thread = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    asked = 0
    with subprocess.Popen(command, env=one_thread, **pipes) as job:
        while job.stdout.readline():
            asked += 1
            job.stdin.write(b"\n")
            if asked == kill_after:
                time.sleep(delay)
                job.send_signal(signal.SIGKILL)
                break
        ended = job.wait()
    done = answer.exists()
    assert ended in (0, -signal.SIGKILL) and (done or kill_after is not None)
    return answer.read_text() if done else None, asked


def left(folder, iterations):
    """The part of a killed job that is still to be done."""
    path = folder / "run.gtck"
    return 1.0 - read(path).run.iteration / iterations if path.exists() else 1.0


# A plain method, the learned one, one whose inner method is randomised, and linear constraints.
METHODS = [("sae", "agm", ""), ("pqn", "", ""), ("afb", "katyusha", ""), ("afb", "agm", "30")]
LONG = [pytest.param(method, 200, marks=pytest.mark.long) for method in METHODS]


@pytest.mark.parametrize(("method", "kills"), [(METHODS[0], 2), (METHODS[3], 2), *LONG])
def test_killed_at_random_moments(tmp_path, method, kills):
    """Every kill counts that ended a job before its answer; jobs are resumed between them."""
    (tmp_path / "whole").mkdir()
    expected, gradients = run_job(tmp_path / "whole", method)
    assert expected is not None and expected.endswith("CONVERGED")
    iterations = int(expected.split()[1])
    rng = np.random.default_rng(8)
    interrupted, late, jobs = 0, 0, 0
    while interrupted < kills:
        job = tmp_path / str(jobs)
        job.mkdir()
        jobs += 1
        answer = None
        # A job with little to do is left to end: it would be gone before the signal comes.
        while answer is None and interrupted < kills and (rest := left(job, iterations)) > 0.1:
            most = max(2, int(0.9 * rest * gradients))
            # The delay lets the signal come at any moment of an iteration or of its saving.
            answer, _ = run_job(job, method, rng.integers(1, most), delay=rng.uniform(0.0, 2e-3))
            interrupted += answer is None
            late += answer is not None
        answer = run_job(job, method)[0] if answer is None else answer
        assert answer == expected
    assert interrupted == kills and late < kills
    print(f"{interrupted} of {kills} kills resumed, in {jobs} jobs; {late} signals came too late")
