"""The download: nested archives, verification, cache; served from a local file."""

import io
import zipfile

import numpy as np
import pytest

from geartrain import datasets

pytestmark = pytest.mark.same_everywhere  # files


def metadata(banana=33):
    classes = ["banana"] * banana + ["wine"] * 36 + ["background"] * (64 - banana)
    rows = [f"{i}\t07-04-15\t{name}\t13.49\t1.64 " for i, name in enumerate(classes)]
    return "\n".join(["id\tdate\t\tclass\tt0\tdt", *rows]) + "\n"


def data(columns=12):
    rng = np.random.default_rng(0)
    rows = []
    for i in range(100):
        values = rng.uniform(1, 9, columns - 1)
        rows.append("  ".join([str(i), *(f"{v:.4f}" for v in values)]) + "  ")
    return "id time R1 R2 R3 R4 R5 R6 R7 R8 Temp. Humidity\n" + "\n".join(rows) + "\n"


def archive(tmp_path, meta, table):
    """As UCI has it: the data file zipped once more inside the archive."""
    inner = io.BytesIO()
    with zipfile.ZipFile(inner, "w") as bundle:
        bundle.writestr("HT_Sensor_dataset.dat", table)
    path = tmp_path / "uci.zip"
    with zipfile.ZipFile(path, "w") as bundle:
        bundle.writestr("HT_Sensor_dataset.zip", inner.getvalue())
        bundle.writestr("HT_Sensor_metadata.dat", meta)
    return path.as_uri()


def test_fetched_once_and_loaded(tmp_path):
    url = archive(tmp_path, metadata(), data())
    folder = datasets.fetch_gas_sensors(tmp_path / "cache", url=url)
    table = datasets.load_gas_sensors(folder)
    assert table.X.shape == (69, 11)
    assert (table.y == 1).sum() == 33
    assert "one row a second" in table.source
    again = datasets.fetch_gas_sensors(tmp_path / "cache", url="file:///nowhere.zip")
    assert again == folder


@pytest.mark.parametrize(
    ("meta", "table", "message"),
    [
        (metadata(banana=30), data(), "inductions"),
        (metadata(), data(columns=9), "9 columns, not 12"),
    ],
)
def test_wrong_content_is_not_kept(tmp_path, meta, table, message):
    url = archive(tmp_path, meta, table)
    with pytest.raises(ValueError, match=message):
        datasets.fetch_gas_sensors(tmp_path / "cache", url=url)
    assert not (tmp_path / "cache").exists()


def test_no_archive(tmp_path):
    (tmp_path / "page.zip").write_text("<html>moved</html>")
    with pytest.raises(ValueError, match="did not answer with a zip archive"):
        datasets.fetch_gas_sensors(tmp_path / "cache", url=(tmp_path / "page.zip").as_uri())
    with pytest.raises(OSError, match="cannot be reached"):
        datasets.fetch_gas_sensors(tmp_path / "cache", url=(tmp_path / "none.zip").as_uri())
