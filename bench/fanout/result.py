"""What one fan-out run measured, and how it is printed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from bench.fanout.where import shares

EVENT_BYTES = 256
"""Bytes of application data in each event."""


@dataclass(frozen=True)
class SubscriberReport:
    """One subscriber's part of a run; times are seconds of the machine's monotonic clock."""

    received: int
    first_at: float
    last_at: float
    cpu_seconds: float
    bytes_sent: int
    copies: int
    """Copies of events that arrived, duplicates included."""
    latencies: tuple[float, ...]
    samples: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class PublisherReport:
    published: int
    began_at: float
    cpu_seconds: float
    bytes_sent: int
    samples: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class FanoutResult:
    """One row of the table."""

    system: str
    subscribers: int
    published: int
    events_per_second: float
    deliveries_per_second: float
    delivered_part: float
    cpu_us_per_delivery: float
    copies_per_delivery: float
    bytes_sent_per_byte_delivered: float
    latency_p50_us: float
    latency_p99_us: float
    publisher_share: Mapping[str, float]
    """Where the publisher's time goes, by layer; empty unless asked for."""
    subscriber_share: Mapping[str, float]
    """The same for all subscribers together."""

    def as_json(self) -> str:
        return json.dumps({name: _rounded(value) for name, value in asdict(self).items()})

    def row(self) -> str:
        return (
            f"{self.system:<26} {self.subscribers:>3} {self.events_per_second:>9,.0f}"
            f" {self.deliveries_per_second:>12,.0f} {100 * self.delivered_part:>10.2f}%"
            f" {self.cpu_us_per_delivery:>8.1f} {self.copies_per_delivery:>7.2f}"
            f" {self.bytes_sent_per_byte_delivered:>7.2f}"
            f" {self.latency_p50_us:>8,.0f} {self.latency_p99_us:>8,.0f}"
        )

    def where_time_goes(self) -> str:
        """A line for the publisher and one for the subscribers."""
        lines = []
        for name, parts in (
            ("publisher", self.publisher_share),
            ("subscribers", self.subscriber_share),
        ):
            shares = ", ".join(f"{layer} {100 * part:.0f}%" for layer, part in parts.items())
            lines.append(f"  time of {name}: {shares}")
        return "\n".join(lines)


HEADER = (
    f"{'system':<26} {'S':>3} {'events/s':>9} {'deliveries/s':>12} {'delivered':>11} {'CPU us':>8}"
    f" {'copies':>7} {'bytes':>7} {'p50 us':>8} {'p99 us':>8}\n"
    "CPU, copies (arriving) and bytes (sent, by byte delivered) are per delivery; latency at the steady rate"
)


def summarise(
    system: str,
    fast: tuple[PublisherReport, list[SubscriberReport]],
    steady: list[SubscriberReport],
    sampled: tuple[PublisherReport, list[SubscriberReport]] | None = None,
) -> FanoutResult:
    """Throughput of the run at full speed, latency of that at a steady rate, shares of the sampled one."""
    publisher, subscribers = fast
    received = sum(report.received for report in subscribers)
    seconds = max(report.last_at for report in subscribers) - publisher.began_at
    cpu = publisher.cpu_seconds + sum(report.cpu_seconds for report in subscribers)
    sent = publisher.bytes_sent + sum(report.bytes_sent for report in subscribers)
    latencies = sorted(latency for report in steady for latency in report.latencies)
    return FanoutResult(
        system=system,
        subscribers=len(subscribers),
        published=publisher.published,
        events_per_second=publisher.published / seconds,
        deliveries_per_second=received / seconds,
        delivered_part=received / (publisher.published * len(subscribers)),
        cpu_us_per_delivery=1e6 * cpu / max(received, 1),
        copies_per_delivery=sum(report.copies for report in subscribers) / max(received, 1),
        bytes_sent_per_byte_delivered=sent / max(received * EVENT_BYTES, 1),
        latency_p50_us=1e6 * _quantile(latencies, 0.5),
        latency_p99_us=1e6 * _quantile(latencies, 0.99),
        publisher_share=shares(sampled[0].samples) if sampled else {},
        subscriber_share=shares(*(report.samples for report in sampled[1])) if sampled else {},
    )


def _quantile(ordered: list[float], part: float) -> float:
    return ordered[min(len(ordered) - 1, int(part * len(ordered)))] if ordered else float("nan")


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _rounded(part) for name, part in value.items()}
    return round(value, 3) if isinstance(value, float) else value
