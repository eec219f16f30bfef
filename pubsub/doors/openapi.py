"""What the HTTP door offers: as OpenAPI for programs, and as a page made from that, which needs no script."""

from __future__ import annotations

from html import escape
from typing import Any

_TOPIC = {"name": "topic", "in": "path", "required": True, "schema": {"type": "string"}}
OPENAPI: dict[str, Any] = {
    "openapi": "3.1.0",
    "info": {
        "title": "camcast",
        "version": "1",
        "description": "Publish to topics, and follow them.",
    },
    "paths": {
        "/topics/{topic}": {
            "post": {
                "summary": "Publish the body as an event of the topic",
                "parameters": [
                    _TOPIC,
                    {
                        "name": "durable",
                        "in": "query",
                        "description": "answer when the event is safe at an archive",
                        "schema": {"type": "boolean"},
                    },
                ],
                "requestBody": {
                    "content": {
                        "application/json": {"schema": {}},
                        "text/plain": {"schema": {"type": "string"}},
                        "application/octet-stream": {"schema": {"type": "string"}},
                    }
                },
                "responses": {
                    "201": {"description": "What became of the event"},
                    "400": {"description": "The topic or the body is wrong"},
                    "503": {"description": "No archive has the event"},
                },
            },
            "get": {
                "summary": "Follow the topic and its subtopics, as Server-Sent Events or by WebSocket",
                "parameters": [
                    _TOPIC,
                    {
                        "name": "Last-Event-ID",
                        "in": "header",
                        "description": "go on after this event",
                        "schema": {"type": "string"},
                    },
                ],
                "responses": {
                    "200": {"description": "Events", "content": {"text/event-stream": {}}},
                    "503": {"description": "The door has no room for another stream"},
                },
            },
        }
    },
}


def page() -> str:
    """The description as HTML."""
    parts = []
    for path, methods in OPENAPI["paths"].items():
        for method, about in methods.items():
            parts.append(f"<h2><code>{method.upper()} {escape(path)}</code></h2>")
            parts.append(f"<p>{escape(about['summary'])}.</p><dl>")
            for one in about.get("parameters", ()):
                what = escape(one.get("description", "such as soccer/italy"))
                parts.append(f"<dt><code>{one['name']}</code> ({one['in']})</dt><dd>{what}</dd>")
            kinds = about.get("requestBody", {}).get("content", ())
            if kinds:
                parts.append(f"<dt>body</dt><dd>{escape(', '.join(kinds))}</dd>")
            for status, answer in about["responses"].items():
                parts.append(f"<dt>{status}</dt><dd>{escape(answer['description'])}</dd>")
            parts.append("</dl>")
    title, about = (escape(OPENAPI["info"][name]) for name in ("title", "description"))
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title>'
        '<meta name="color-scheme" content="light dark"><meta name="viewport" '
        'content="width=device-width"><body style="font: 1rem/1.5 system-ui; max-width: 45rem; '
        f'margin: 2rem auto; padding: 0 1rem"><h1>{title}</h1><p>{about} For programs: '
        f'<a href="openapi.json">openapi.json</a></p>{"".join(parts)}</body></html>'
    )
