"""A small reproduction, for the tests of the report."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import io

from geartrain.cli import main
from geartrain_lab.experiments import kernel_svm, log_density


@dataclasses.dataclass
class Reproduction:
    folder: object
    printed: str
    told: str  # on stderr

    @property
    def page(self):
        return self.folder / "report.html"


def small(patch):
    """Both experiments on small instances; only the paper's setting is cut off by the clock."""
    density = log_density.stages

    def small_density(quick):
        (stage,) = density(quick)
        entries = [
            dataclasses.replace(e, limit=0.05) if e.label == log_density.SAE_PAPER.label else e
            for e in stage.entries
        ]
        build = functools.partial(log_density.build, 40, 300, 0.05)
        return [dataclasses.replace(stage, entries=entries, build=build)]

    patch.setattr(kernel_svm, "QUICK_ROWS", 100)
    patch.setattr(log_density, "stages", small_density)


def reproduce(folder, data):
    """Run the command; the folder and what it printed."""
    out, err = io.StringIO(), io.StringIO()
    command = ["--debug", "reproduce", "all", "--quick", "--out", str(folder), "--data", str(data)]
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(command)
    assert code == 0
    return Reproduction(folder, out.getvalue(), err.getvalue())
