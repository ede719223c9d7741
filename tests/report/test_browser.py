"""The page in a real browser: Debian's chromium, headless.

Needs chromium and chromedriver. As root on a machine with apt-get they are installed if they are
missing; where that is not possible the tests say so and are left out.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import time

import numpy as np
import pytest
from matplotlib import image

pytestmark = pytest.mark.same_everywhere  # what a browser draws

FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--enable-unsafe-swiftshader",
)


def chromium():
    """Paths of browser and driver; a sentence where they cannot be had."""
    for attempt in range(2):
        browser = shutil.which("chromium") or shutil.which("chromium-browser")
        driver = shutil.which("chromedriver")
        if browser and driver:
            return browser, driver
        if attempt or os.geteuid() != 0 or not shutil.which("apt-get"):
            break
        install = ["apt-get", "install", "-y", "-q", "chromium", "chromium-driver"]
        subprocess.run(["apt-get", "update", "-q"], capture_output=True, timeout=120, check=False)
        subprocess.run(install, capture_output=True, timeout=300, check=False)
    return "no chromium with chromedriver here, and apt-get could not install them"


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    selenium = pytest.importorskip("selenium", reason="the browser tests need selenium")
    found = chromium()
    if isinstance(found, str):
        pytest.skip(found)
    from selenium.webdriver.chrome.service import Service

    options = selenium.webdriver.ChromeOptions()
    options.binary_location = found[0]
    for flag in (*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = selenium.webdriver.Chrome(options=options, service=Service(found[1]))
    yield driver
    driver.quit()


def show(browser, page, width):
    """Open the page at a width and wait until all figures are drawn."""
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    browser.get(page.as_uri())
    wait(lambda: browser.execute_script(DRAWN))


def wait(ready):
    """Until it is so; the limit is for pages that hang, not for slow machines."""
    for _ in range(3000):
        if ready():
            return
        time.sleep(0.2)
    raise AssertionError("the page hangs")


DRAWN = """
const figures = [...document.querySelectorAll('.plotly-graph-div')];
return figures.length > 0 && figures.every(f =>
    f.querySelector('.scatterlayer path, .barlayer path') ||
    (f._fullLayout && f._fullLayout.scene && f._fullLayout.scene._scene &&
     f._fullLayout.scene._scene.glplot));
"""
SPACE = """
return [...document.querySelectorAll('.plotly-graph-div')].find(f => f._fullLayout.scene);
"""


@pytest.mark.parametrize("width", [390, 1400])
def test_page_opens_without_an_error_and_fits(browser, report, width):
    browser.get_log("browser")
    show(browser, report.page, width)
    errors = [e for e in browser.get_log("browser") if e["level"] == "SEVERE"]
    assert errors == []
    assert "WebGL is not supported" not in browser.page_source.split("</head>")[1]
    root = "document.documentElement"
    assert browser.execute_script(f"return {root}.scrollWidth <= {root}.clientWidth")
    # Text can be read: nothing of the prose is smaller than 12 pixels, no figure is squeezed.
    sizes = "[...document.querySelectorAll('p, li, td, figcaption, small')]"
    smallest = browser.execute_script(
        f"return Math.min(...{sizes}.map(e => parseFloat(getComputedStyle(e).fontSize)))"
    )
    assert smallest >= 12
    widths = browser.execute_script(
        "return [...document.querySelectorAll('.plotly-graph-div')].map(f => f.clientWidth)"
    )
    assert min(widths) >= min(340, width - 50)
    plots = browser.execute_script(
        "return [...document.querySelectorAll('.plotly-graph-div')]"
        ".filter(f => f._fullLayout.yaxis).map(f => f._fullLayout._size.h)"
    )
    assert min(plots) >= 120


def test_page_asks_no_host(browser, report):
    browser.get_log("performance")
    show(browser, report.page, 1400)
    asked = []
    for entry in browser.get_log("performance"):
        message = json.loads(entry["message"])["message"]
        if message["method"] == "Network.requestWillBeSent":
            asked.append(message["params"]["request"]["url"])
    assert report.page.as_uri() in asked
    assert [u for u in asked if not u.startswith(("file:", "data:", "blob:"))] == []


def test_space_is_drawn_and_turns_with_a_drag(browser, report):
    from selenium.webdriver.common.action_chains import ActionChains

    show(browser, report.page, 1400)
    figure = browser.execute_script(SPACE)
    assert figure is not None
    browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", figure)
    wait(lambda: colours(picture(figure)) > 50)
    before = picture(figure)
    eye = "return arguments[0]._fullLayout.scene._scene.getCamera().eye"
    start = browser.execute_script(eye, figure)
    canvas = figure.find_element("css selector", "canvas")
    ActionChains(browser).move_to_element(canvas).click_and_hold().move_by_offset(120, 40).pause(
        0.3
    ).release().perform()
    turned = lambda end: sum((start[c] - end[c]) ** 2 for c in "xyz") > 1e-3  # noqa: E731
    wait(lambda: turned(browser.execute_script(eye, figure)))
    wait(lambda: (np.abs(picture(figure) - before) > 0.1).any(axis=-1).mean() > 0.002)


def colours(pixels):
    return len(np.unique((pixels[..., :3] * 255).astype(int) @ (65536, 256, 1)))


def picture(element):
    return image.imread(io.BytesIO(element.screenshot_as_png), format="png")
