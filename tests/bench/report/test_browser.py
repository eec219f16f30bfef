"""The report in a headless browser: it opens from a file, throws nothing, and draws every figure."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from bench.report import report_files
from bench.report.figures import RECIPES
from tests.bench.report.synthetic import whole_content
from tests.browser import BROWSER, OPTIONS

pytestmark = pytest.mark.skipif(BROWSER is None, reason="no chromium on this machine")

PROBE = """<script>
const boxes = [...document.querySelectorAll("svg.figure, figure:not([hidden]) svg.spread")];
const flat = boxes.filter((box) => box.getBoundingClientRect().height < 50);
const button = document.querySelector(".legend button");
button.click();
const label = CSS.escape(button.dataset.label);
const lines = button.closest("figure").querySelectorAll(`.series[data-label="${label}"]`);
const slider = document.querySelector(".hops input[type=range]");
const bodies = [...document.querySelectorAll("table.claims tbody")];
const rows = bodies[0].querySelector("button.open");
rows.click();
const opened = !bodies[0].rows[1].hidden;
const behind = bodies[0].querySelector(".behind table td:last-child").getBoundingClientRect();
document.querySelector('.filters button[data-kind="yes"]').click();
const filtered = bodies.filter((claim) => claim.dataset.kind === "yes").every((claim) => claim.hidden);
document.querySelector('.filters button[data-kind="yes"]').click();
document.querySelector('thead button[data-column="4"]').click();
slider.value = 0;
slider.dispatchEvent(new Event("input"));
const dots = [...document.querySelectorAll("figure:not([hidden]) svg.spread .dot")];
const shown = dots.filter((mark) => getComputedStyle(mark).display !== "none");
const choices = [...document.querySelectorAll(".hops input[type=radio]")];
choices.at(-1).click();
const picked = [...document.querySelectorAll("figure.event")].filter((one) => !one.hidden);
const play = document.querySelector(".hops button");
slider.value = slider.max;
play.click();
const plays = slider.value === "0" && play.textContent === "stop";
play.click();
const table = document.querySelector("table.claims");
const figure = document.querySelector("svg.figure");
const dot = figure.querySelector(".series:not(.hidden) .dot").getBoundingClientRect();
figure.dispatchEvent(new PointerEvent("pointermove", {clientX: dot.left + 2, clientY: dot.top + 2}));
document.body.dataset.probe = JSON.stringify({
  drawn: boxes.length, flat: flat.length, lines: lines.length,
  hidden: [...lines].every((line) => getComputedStyle(line).display === "none"),
  shown: shown.length, tip: document.getElementById("tip").textContent,
  opened, filtered, sorted: document.querySelectorAll("th[aria-sort]").length,
  wide: document.documentElement.scrollWidth > innerWidth,
  sideways: table.getBoundingClientRect().width > table.parentElement.clientWidth + 1,
  roomy: behind.width > 150,
  picked: picked.length === 1 && picked[0].dataset.mode === choices.at(-1).value, plays,
});
</script>"""
"""Appended to the page: what a reader does, and what is to be seen of it."""


def browse(page: Path, profile: Path, *options: str) -> subprocess.CompletedProcess[str]:
    assert BROWSER is not None
    return subprocess.run(
        [
            BROWSER,
            *OPTIONS,
            f"--user-data-dir={profile}",
            "--enable-logging=stderr",
            *options,
            page.as_uri(),
        ],
        capture_output=True,
        text=True,
        timeout=120,
    )


@pytest.mark.parametrize("width", [420, pytest.param(1400, marks=pytest.mark.sweep)])
def test_the_page_opens_throws_nothing_and_answers_its_reader(tmp_path: Path, width: int) -> None:
    page = tmp_path / "report.html"
    files = report_files(whole_content())
    page.write_text(files[page.name].replace("</body>", f"{PROBE}</body>"))
    seen = browse(page, tmp_path / "profile", f"--window-size={width},900", "--dump-dom")
    console = [line for line in seen.stderr.splitlines() if "CONSOLE" in line]
    assert console == []
    probe = re.search(r'data-probe="([^"]*)"', seen.stdout)
    assert probe is not None, seen.stderr[-2000:]
    found = probe.group(1).replace("&quot;", '"')
    # Beside the recipes: what reliability costs, and one event.
    assert f'"drawn":{len(RECIPES) + 2},"flat":0' in found
    assert '"opened":true,"filtered":true,"sorted":1' in found
    assert '"hidden":true' in found
    assert '"lines":0' not in found
    assert '"shown":1,' in found
    assert "events" in found
    assert '"wide":false,"sideways":false' in found
    assert '"roomy":true,"picked":true,"plays":true' in found


def test_a_broken_script_would_be_seen(tmp_path: Path) -> None:
    page = tmp_path / "broken.html"
    page.write_text("<script>nothing.there()</script>")
    seen = browse(page, tmp_path / "profile", "--dump-dom")
    assert "CONSOLE" in seen.stderr
