"""A run that is killed at random moments resumes to the same answer."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from geartrain.core.checkpoint import read

JOB = """
import os, sys, time
import numpy as np
import geartrain as gt
rng = np.random.default_rng(1)
A = rng.standard_normal((40, 10))
g = gt.LinearModel(A, np.sign(A[:, 0]), loss="logistic", l2=0.01)
slow = gt.Quadratic(np.diag(np.linspace(0.05, 1.0, 10)), np.ones(10))
def grad(x):
    time.sleep(0.001)
    return slow.grad(x)
h = gt.Term(grad=grad, value=slow.value, n=10, L=1.0)
path, answer, method, inner = sys.argv[1:]
place = gt.callbacks.Checkpoint(path, every=0)
print("ready", flush=True)
if os.path.exists(path):
    res = gt.resume(path, h, g)
else:
    options = {"inner": inner} if inner else {}
    res = gt.minimize(h, g, method=method, tol=1e-6, seed=2, checkpoint=place, **options)
calls = str(sorted(res.calls.items()))
text = " ".join([res.x.tobytes().hex(), str(res.nit), calls, res.status.name])
with open(answer + ".part", "w") as file:
    file.write(text)
os.replace(answer + ".part", answer)
"""


def run_job(folder, method, kill_after=None):
    """The answer of the job, or None if it was killed before, and the seconds of the run."""
    answer = folder / "answer"
    command = [sys.executable, "-c", JOB, str(folder / "run.gtck"), str(answer), *method]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as job:
        assert job.stdout is not None and job.stdout.readline() == b"ready\n"
        start = time.perf_counter()
        if kill_after is not None:
            time.sleep(kill_after)
            job.send_signal(signal.SIGKILL)
        ended = job.wait()
        seconds = time.perf_counter() - start
    done = answer.exists()
    assert ended in (0, -signal.SIGKILL) and (done or kill_after is not None)
    return answer.read_text() if done else None, seconds


def left(folder, iterations):
    """The part of a killed job that is still to be done."""
    path = folder / "run.gtck"
    return 1.0 - read(path).run.iteration / iterations if path.exists() else 1.0


# A plain method, the learned one, and one whose inner method is randomised.
METHODS = [("sae", "agm"), ("sae-qn", ""), ("afb", "katyusha")]
LONG = [pytest.param(method, 200, marks=pytest.mark.long) for method in METHODS]


@pytest.mark.parametrize(("method", "kills"), [(METHODS[0], 5), *LONG])
def test_killed_at_random_moments(tmp_path, method, kills):
    """Every kill counts that ended a job before its answer; jobs are resumed between them."""
    (tmp_path / "whole").mkdir()
    expected, length = run_job(tmp_path / "whole", method)
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
            answer, _ = run_job(job, method, kill_after=rng.uniform(0.0, 0.9 * rest * length))
            interrupted += answer is None
            if answer is not None:  # the signal came too late: the machine has become quicker
                late, length = late + 1, 0.7 * length
        answer = run_job(job, method)[0] if answer is None else answer
        assert answer == expected
    assert interrupted == kills and late < kills
    print(f"{interrupted} of {kills} kills resumed, in {jobs} jobs; {late} signals came too late")
