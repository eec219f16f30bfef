"""The report drawn from made-up aggregates: complete, well-formed, self-contained, and decided by them."""

from __future__ import annotations

import dataclasses
import json
import re
from html.parser import HTMLParser
from typing import Any
from xml.etree import ElementTree

import pytest

from bench.aggregates import Aggregate, Aggregates
from bench.claims import CLAIMS, Part
from bench.intervals import Interval
from bench.report import report_files
from bench.report.content import Material, content
from bench.report.figures import RECIPES, figures
from bench.report.headline import QUESTIONS
from bench.report.page import as_html, as_markdown, value_words
from bench.report.spread import draw_spread, in_words, spread
from bench.report.svg import draw
from bench.results import WHOLE
from tests.bench.report.synthetic import EVENT, aggregates, whole_content

VOID = {"meta", "br", "input", "link", "img", "hr"}


class Balance(HTMLParser):
    """Fails on a tag that is closed out of turn, and keeps what is still open."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attributes: object) -> None:
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attributes: object) -> None:
        pass

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag


@pytest.fixture(scope="module")
def whole() -> str:
    """The page of everything, drawn once."""
    return as_html(whole_content())


def test_every_recipe_is_drawn_with_a_line_in_every_panel() -> None:
    drawn = {figure.name: figure for figure in figures(aggregates())}
    assert set(drawn) == {recipe.name for recipe in RECIPES}
    for figure in drawn.values():
        assert all(panel.series for panel in figure.panels), figure.name
        root = ElementTree.fromstring(draw(figure))
        dots = [e for e in root.iter() if e.get("class", "").startswith("dot")]
        assert len(dots) == sum(len(s.points) for p in figure.panels for s in p.series)


def test_the_page_is_well_formed_and_has_everything(whole: str) -> None:
    text = whole
    parser = Balance()
    parser.feed(text)
    parser.close()
    assert parser.open == []
    for name in [recipe.name for recipe in RECIPES]:
        assert f'data-figure="{name}"' in text
    for claim in CLAIMS:
        assert f'data-claim="{claim.name}"' in text
    assert 'data-spread="structured"' in text
    assert "camcast bench run quick" in text


def test_every_number_can_be_traced_to_the_command_that_remakes_it(whole: str) -> None:
    assert "camcast bench run quick --only figures-19-28 --report --out again" in whole
    # Of each claim, and of each row of the first screen.
    assert whole.count('class="behind"') == len(CLAIMS) + len(QUESTIONS)
    assert 'class="bar ' in whole
    assert re.search(r"after \d+", whole)


def test_the_page_needs_nothing_from_elsewhere(whole: str) -> None:
    text = whole
    assert set(re.findall(r"https?://[^\s\"'<)]+", text)) == {"http://www.w3.org/2000/svg"}
    assert not re.findall(r"<(?:script|img|iframe|link)[^>]*(?:src|href)=", text)
    assert "url(" not in text
    assert "@import" not in text


def verdict(text: str, claim: str) -> str:
    row = re.search(rf'data-claim="{claim}".*?class="verdict (\w+)"', text, re.DOTALL)
    assert row is not None
    return row.group(1)


def parasite(row: Aggregate) -> Aggregate:
    wrong = row.metric == "parasites" and row.protocol == "camcast" and row.community == WHOLE
    return at(row, 1.0) if wrong else row


def at(row: Aggregate, value: float) -> Aggregate:
    """The same row with another value in every network."""
    return dataclasses.replace(row, value=value, sample=(value,) * len(row.sample))


def lost_reception(row: Aggregate) -> Aggregate:
    wrong = (
        row.metric == "reception" and row.protocol == "camcast" and row.figure == "figures-13-16"
    )
    return at(row, 0.5) if wrong else row


def many_messages(row: Aggregate) -> Aggregate:
    wrong = row.metric == "messages_inside" and row.figure == "scale"
    return at(row, 2 * row.value) if wrong else row


def slow(row: Aggregate) -> Aggregate:
    wrong = row.metric == "rounds" and row.figure == "table-1"
    return at(row, 20.0) if wrong else row


@pytest.mark.parametrize(
    ("claim", "change"),
    [
        ("no-parasites", parasite),
        ("degradation", lost_reception),
        ("messages", many_messages),
        ("table-1", slow),
    ],
)
def test_a_verdict_changes_with_the_results(claim: str, change: Any, whole: str) -> None:
    assert verdict(whole, claim) == "yes"
    [asked] = [one for one in CLAIMS if one.name == claim]
    assert asked.evidence(aggregates(change)).holds is False


def test_the_page_tells_the_verdict_that_the_results_give() -> None:
    assert verdict(as_html(whole_content(parasite)), "no-parasites") == "no"


def test_what_was_not_measured_is_undecided() -> None:
    empty = as_html(content(Material(Aggregates([]))))
    assert {verdict(empty, claim.name) for claim in CLAIMS} == {"open"}


def test_the_report_has_its_figures_and_markdown() -> None:
    files = report_files(whole_content())
    named = re.findall(r"\]\((figures/[^)]+\.svg)\)", files["report.md"])
    assert len(named) == len(RECIPES) + 1  # and what reliability costs
    for name in named:
        ElementTree.fromstring(files[name])
    modes = json.loads(files["report.json"])["tables"]["modes"]
    assert modes["heads"][1] == "unstructured"
    assert all(len(row) == len(modes["heads"]) for row in modes["rows"])


def test_markdown_tells_the_same_verdicts() -> None:
    text = as_markdown(whole_content(parasite))
    assert "does not hold: parasites were received" in text
    assert "\n`camcast bench run quick --only defaults --report --out again`\n" in text


def test_an_event_is_drawn_with_every_process_and_every_copy() -> None:
    root = ElementTree.fromstring(draw_spread(EVENT, last=3))
    classes = [element.get("class", "") for element in root.iter()]
    assert sum(name.startswith("dot") for name in classes) == 5
    assert classes.count("copy") == 3
    assert classes.count("copy up") == 1
    assert classes.count("missed") == 1
    assert in_words(EVENT).startswith(
        "reached, from the bottom community up, 3 of 4, 2 of 2, in 3 hops"
    )


def test_without_an_emulated_run_there_is_no_event_to_draw() -> None:
    assert spread([]) == ""


def test_a_caption_tells_the_parameters_that_were_used() -> None:
    def other_z(row: Aggregate) -> Aggregate:
        return dataclasses.replace(row, z=9)

    def caption(made: Aggregates) -> str:
        return next(f.caption for f in figures(made) if f.name == "figures-19-20")

    assert "c = 0, a = 2, z = 4, no loss." in caption(aggregates())
    assert "z = 9" in caption(aggregates(other_z))


@pytest.mark.parametrize(
    ("low", "words"), [(-0.05, "2.8 [2.1, 3.6] points"), (0.9, "2.8 [2.1, 3.6] %")]
)
def test_a_difference_of_shares_is_told_in_points_also_where_all_of_it_is_above_zero(
    low: float, words: str
) -> None:
    part = Part("", Interval(0.021, 0.028, 0.036), low, 1.0, is_share=True)
    assert value_words(part) == words


def test_every_claim_is_counted_in_the_lead() -> None:
    found = whole_content()
    total, *numbers = map(int, re.findall(r"\d+", found.lead.partition("Of ")[2]))
    assert total == sum(numbers) == len(found.claims)
    assert "in between: 1 not comparable" in found.lead
