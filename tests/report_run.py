"""A small reproduction, for the tests of the report."""

from __future__ import annotations

import contextlib
import dataclasses
import io

from geartrain.cli import main
from geartrain.lab.experiments import kernel_svm, log_density


@dataclasses.dataclass
class Reproduction:
    folder: object
    printed: str
    told: str  # on stderr

    @property
    def page(self):
        return self.folder / "report.html"


def small(patch):
    """Both experiments on small instances, a tenth of a second a run."""
    svm, density = kernel_svm.stages, log_density.stages
    patch.setattr(kernel_svm, "QUICK_ROWS", 120)
    patch.setattr(
        kernel_svm,
        "stages",
        lambda data, quick: [dataclasses.replace(s, limit=0.1) for s in svm(data, quick)],
    )
    patch.setattr(
        log_density,
        "stages",
        lambda quick: [
            dataclasses.replace(s, build=lambda: log_density.build(40, 300, 0.05), limit=0.1)
            for s in density(quick)
        ],
    )


def reproduce(folder, data):
    """Run the command; the exit code and what it printed."""
    out, err = io.StringIO(), io.StringIO()
    command = ["--debug", "reproduce", "all", "--quick", "--out", str(folder), "--data", str(data)]
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(command)
    assert code == 0
    return Reproduction(folder, out.getvalue(), err.getvalue())
