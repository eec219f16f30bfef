"""Spans of OpenTelemetry, from `publish` to delivery across processes (`Node(telemetry=True)`).

Each `publish` is a span; its name travels with the event, 25 bytes, and wherever the event is delivered, also
from an archive, there is another span with the first one as its parent. What an application does with an
event it can put below: `event.traceparent` is what OpenTelemetry's propagators read.

Spans go where the program's tracer provider sends them. Without a provider none are made and nothing travels.
A node without this setting imports nothing of OpenTelemetry, and passes on what others say of their spans. A
traced event has a span of its own, and so a block of its own: many a second cost much more than without.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from overlay.errors import UsageError
from overlay.metrics import Metrics
from pubsub.event import Batch, Origin
from pubsub.subscription import Deliveries
from pubsub.topic import Pattern, Topic
from pubsub.trace import Trace

try:
    from opentelemetry import trace as tracing
    from opentelemetry.trace import NonRecordingSpan, SpanContext, SpanKind, TraceFlags
except ImportError:
    raise UsageError(
        "telemetry needs OpenTelemetry: pip install 'camcast[otel]', or leave telemetry false"
    ) from None

_SYSTEM = {"messaging.system": "camcast"}


class Telemetry:
    """Makes the spans of one node."""

    def __init__(self) -> None:
        self._tracer = tracing.get_tracer("camcast")

    @contextmanager
    def publishing(self, topic: str | type | Topic) -> Iterator[bytes]:
        """A span around a call of `publish`; what travels of it, nothing where it is not recorded."""
        name = Topic.of(topic).name
        about = {**_SYSTEM, "messaging.operation.type": "send", "messaging.destination.name": name}
        with self._tracer.start_as_current_span(
            f"publish {name}", kind=SpanKind.PRODUCER, attributes=about
        ) as span:
            yield _packed(span.get_span_context())

    def delivered(self, origin: Origin, first: int, count: int, pattern: str) -> None:
        """Events have come to a subscription: a span for each that was published in one."""
        if not origin.trace:
            return
        parent = tracing.set_span_in_context(NonRecordingSpan(_unpacked(origin.trace)))
        about: dict[str, str | int] = {
            **_SYSTEM,
            "messaging.operation.type": "receive",
            "messaging.destination.name": origin.topic,
            "messaging.destination.subscription.name": pattern,
            "camcast.publisher": origin.publisher.hex(),
            "camcast.hops": origin.hops,
        }
        for number in range(first, first + count):
            span = self._tracer.start_span(
                f"deliver {origin.topic}",
                parent,
                SpanKind.CONSUMER,
                {**about, "camcast.number": number},
            )
            span.end()


class TracedDeliveries(Deliveries):
    """Deliveries to the subscriptions of a node, with spans."""

    def __init__(self, telemetry: Telemetry, metrics: Metrics, trace: Trace | None = None) -> None:
        super().__init__(metrics, trace)
        self._telemetry = telemetry

    def delivered(self, pattern: Pattern, batch: Batch) -> None:
        super().delivered(pattern, batch)
        self._telemetry.delivered(batch.origin, batch.first, len(batch.data), pattern.text)


def _packed(span: SpanContext) -> bytes:
    if not span.is_valid:
        return b""
    ids = span.trace_id.to_bytes(16, "big") + span.span_id.to_bytes(8, "big")
    return ids + bytes((span.trace_flags,))


def _unpacked(trace: bytes) -> SpanContext:
    return SpanContext(
        int.from_bytes(trace[:16], "big"),
        int.from_bytes(trace[16:24], "big"),
        is_remote=True,
        trace_flags=TraceFlags(trace[24]),
    )
