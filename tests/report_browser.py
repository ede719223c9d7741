"""A headless Chromium for the tests of the report.

Needs chromium and chromedriver. As root on a machine with apt-get they are installed if they are
missing; where that is not possible the tests say so and are left out.
"""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import time

import pytest

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


def start(profile):
    """A driver, or the test is left out with the reason."""
    selenium = pytest.importorskip("selenium", reason="the browser tests need selenium")
    found = chromium()
    if isinstance(found, str):
        pytest.skip(found)
    from selenium.webdriver.chrome.service import Service

    options = selenium.webdriver.ChromeOptions()
    options.binary_location = found[0]
    for flag in (*FLAGS, f"--user-data-dir={profile}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    return selenium.webdriver.Chrome(options=options, service=Service(found[1]))


def show(browser, page, width, scheme="light"):
    """Open the page at a width in a colour scheme and wait until all figures are drawn."""
    browser.get_log("browser")
    scheme = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": scheme})
    _size(browser, width)
    browser.get(page.as_uri())
    _settle(browser)


def resize(browser, width):
    """Give the window another width and wait until the figures have followed."""
    _size(browser, width)
    _settle(browser)


def _size(browser, width):
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)


def _settle(browser, deadline=180.0):
    """Wait until every figure is drawn and nothing has moved for half a second."""
    end = time.monotonic() + deadline
    seen, since = None, time.monotonic()
    while time.monotonic() < end:
        places = browser.execute_script(PLACES)
        if places != seen:
            seen, since = places, time.monotonic()
        elif time.monotonic() - since > 0.5 and browser.execute_script(DRAWN):
            return
        time.sleep(0.3)
    raise AssertionError("the figures were not drawn in three minutes")


def picture(element):
    """What an element looks like: an array of pixels."""
    from matplotlib import image

    return image.imread(io.BytesIO(element.screenshot_as_png), format="png")


# The figure that is drawn in space.
SPACE = """
return [...document.querySelectorAll('.plot')].find(f => f._fullLayout.scene);
"""
PLACES = """
return [...document.querySelectorAll('figure, .main-svg, .main-svg text')].map(e => {
    const b = e.getBoundingClientRect();
    return [b.left, b.top, b.right, b.bottom].map(Math.round).join();
}).join(';');
"""
DRAWN = """
const figures = [...document.querySelectorAll('.plotly-graph-div, .plot')];
return figures.length > 0 && figures.every(f =>
    f.querySelector('.scatterlayer path, .barlayer path') ||
    (f._fullLayout && f._fullLayout.scene && f._fullLayout.scene._scene &&
     f._fullLayout.scene._scene.glplot));
"""
