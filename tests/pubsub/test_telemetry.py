"""Spans of OpenTelemetry: they join a publisher and its subscribers, and cost nothing where they are off."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence

import pytest
from opentelemetry import trace as tracing
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind

from overlay.errors import UsageError
from overlay.virtual import Network
from overlay.wire import WireError
from pubsub import Archive, Node
from pubsub.event import Head, make_block, read_block


@pytest.fixture
def exported(monkeypatch: pytest.MonkeyPatch) -> Iterator[InMemorySpanExporter]:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(tracing, "get_tracer", provider.get_tracer)
    yield exporter
    provider.shutdown()


def named(spans: Sequence[ReadableSpan], name: str) -> list[ReadableSpan]:
    return [span for span in spans if span.name == name]


async def exchange(*, publisher: bool, subscriber: bool) -> list[str | None]:
    """Two events that three members are given, one of which makes no spans but passes events on."""
    found = []
    async with (
        Node(listen="127.0.0.1:4000", telemetry=subscriber) as first,
        Node(listen="127.0.0.2:4000", bootstrap=["127.0.0.1:4000"]) as between,
        Node(listen="127.0.0.3:4000", bootstrap=["127.0.0.2:4000"], telemetry=publisher) as last,
        first.subscribe("/soccer") as events,
        between.subscribe("/soccer") as others,
    ):
        for score in ("1-0", "2-0"):
            await last.publish("/soccer/italy", score, wait="acked")
            found.append((await anext(events)).traceparent)
            assert (await anext(others)).traceparent == found[-1]
    return found


def test_a_delivery_is_a_child_of_its_publication(exported: InMemorySpanExporter) -> None:
    parents = Network(seed=1).run(exchange(publisher=True, subscriber=True))
    spans = exported.get_finished_spans()
    published = named(spans, "publish /soccer/italy")
    delivered = named(spans, "deliver /soccer/italy")
    assert len(published) == len(delivered) == 2
    for sent, given, parent in zip(published, delivered, parents, strict=True):
        assert (sent.kind, given.kind) == (SpanKind.PRODUCER, SpanKind.CONSUMER)
        assert sent.context is not None
        assert given.context is not None
        assert given.parent is not None
        assert given.parent.span_id == sent.context.span_id
        assert given.context.trace_id == sent.context.trace_id
        ids = f"{sent.context.trace_id:032x}-{sent.context.span_id:016x}"
        assert parent == f"00-{ids}-{sent.context.trace_flags:02x}"
        assert given.attributes is not None
        assert given.attributes["messaging.destination.subscription.name"] == "/soccer"


def test_nothing_travels_from_a_publisher_without_telemetry(exported: InMemorySpanExporter) -> None:
    assert Network(seed=1).run(exchange(publisher=False, subscriber=True)) == [None, None]
    assert not exported.get_finished_spans()


def test_a_durable_event_keeps_its_span_in_the_archive(exported: InMemorySpanExporter) -> None:
    async def main() -> None:
        async with (
            Archive(["/soccer"], "memory:", listen="127.0.0.1:4000"),
            Node(bootstrap=["127.0.0.1:4000"], telemetry=True) as node,
        ):
            await node.publish("/soccer", "1-0", durable=True)
            await node.publish_many("/soccer", ["2-0", "3-0"], durable=True)
            async with node.subscribe("/soccer", durable="x", since="beginning") as events:
                parents = [(await anext(events)).traceparent for _ in range(3)]
        assert None not in parents
        assert parents[0] != parents[1] == parents[2]

    Network(seed=1).run(main())
    spans = exported.get_finished_spans()
    assert len(named(spans, "publish /soccer")) == 2
    assert len(named(spans, "deliver /soccer")) == 3


def test_a_span_that_is_not_one_is_refused() -> None:
    for trace, ok in ((bytes(25), True), (b"", True), (bytes(24), False), (bytes(2000), False)):
        encoded = make_block(bytes(28), 1, Head("/a", trace=trace), [b"\xc0"]).encoded
        if ok:
            assert read_block(encoded, "/a").trace == trace
        else:
            with pytest.raises(WireError):
                read_block(encoded, "/a")


def test_nothing_of_opentelemetry_is_loaded_where_it_is_off() -> None:
    program = (
        "import asyncio, sys\nfrom pubsub import Node\n"
        "async def main():\n    async with Node() as node:\n        await node.publish('/a', 1)\n"
        "asyncio.run(main())\nassert not [m for m in sys.modules if m.startswith('opentelemetry')]"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_the_extra_is_named_where_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    monkeypatch.delitem(sys.modules, "pubsub.telemetry", raising=False)

    async def main() -> None:
        with pytest.raises(UsageError, match=r"camcast\[otel\]"):
            async with Node(telemetry=True):
                pass

    Network(seed=1).run(main())
