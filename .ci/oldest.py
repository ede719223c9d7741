"""Print the oldest versions that the tests may run with, as constraints for pip.

``name[extra]>=1.2; marker`` of pyproject.toml becomes ``name==1.2; marker``, for the dependencies
of the project and those of its extra "test" and of the extras which that one names.
"""

import re
import tomllib
from pathlib import Path

project = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text())["project"]
extras = project["optional-dependencies"]


def oldest(lines: list[str]) -> set[str]:
    """The constraints that follow from some requirements."""
    found = set()
    for line in lines:
        if own := re.fullmatch(rf"{project['name']}\[(.*)\]", line):
            found |= oldest([needed for extra in own[1].split(",") for needed in extras[extra]])
        else:
            found.add(re.sub(r"\[.*?\]", "", line).replace(">=", "=="))
    return found


print("\n".join(sorted(oldest(project["dependencies"] + extras["test"]))))
