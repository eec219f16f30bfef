"""The shape of DACE's figure 8: throughput against participants, and the share that arrives."""

from __future__ import annotations

from collections.abc import Callable

from bench.report.plot import Figure, Panel, Point, Series
from bench.report.svg import draw
from bench.topic_broadcast.throughput import Throughput

_COLOURS = {"reliable": "structured", "best-effort": "unstructured"}
_TITLES = {
    "virtual": "virtual: reliable teal, best-effort red",
    "sockets": "real UDP: reliable teal, best-effort red",
}


def throughput_figure(results: list[Throughput]) -> str:
    """Messages a second, one panel for each network, as SVG."""
    return draw(
        Figure(
            "topic-throughput",
            "Topic broadcast of 1-KiB messages: reliable and best-effort",
            "",
            "participants",
            "messages/s",
            _panels(results, lambda result: result.rate),
            log_y=True,
        )
    )


def delivered_figure(results: list[Throughput]) -> str:
    """The share of deliveries that arrived, as SVG."""
    return draw(
        Figure(
            "topic-delivered",
            "Share of deliveries that arrived",
            "",
            "participants",
            "delivered",
            _panels(results, lambda result: result.delivered),
            share=True,
        )
    )


def _panels(results: list[Throughput], value: Callable[[Throughput], float]) -> tuple[Panel, ...]:
    networks = dict.fromkeys(result.network for result in results)
    return tuple(
        Panel(
            _TITLES[network],
            tuple(
                Series(semantics, colour, "emulate", _points(results, network, semantics, value))
                for semantics, colour in _COLOURS.items()
            ),
        )
        for network in networks
    )


def _points(
    results: list[Throughput],
    network: str,
    semantics: str,
    value: Callable[[Throughput], float],
) -> tuple[Point, ...]:
    chosen = [r for r in results if r.network == network and r.semantics == semantics]
    chosen.sort(key=lambda result: result.participants)
    return tuple(Point(r.participants, value(r), value(r), value(r), 1) for r in chosen)
