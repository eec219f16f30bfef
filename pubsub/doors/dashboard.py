"""The dashboard: a page that shows the network of the node that serves it, and publishes and follows topics.

    GET /               the page; it needs nothing from elsewhere
    GET /network.json   what it shows (see `pubsub.reports.picture`)

and all of `pubsub.doors.http`. The node asks the others for their reports while the dashboard is entered.
"""

from __future__ import annotations

from contextlib import ExitStack
from importlib import resources
from typing import Any, Self

from aiohttp import web

from pubsub.doors.http import HttpDoor
from pubsub.node import Node
from pubsub.reports import CensusConfig, census_of, picture
from pubsub.text import json_line

_TYPES = {"html": "text/html", "css": "text/css", "js": "text/javascript"}
_HEADERS = {
    "Content-Security-Policy": "default-src 'self'; img-src 'self' data:; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}


class Dashboard(HttpDoor):
    """Serves while it is entered."""

    def __init__(
        self, node: Node, listen: str, *, census: CensusConfig | None = None, **options: Any
    ) -> None:
        """`options`: those of `HttpDoor`. With tokens, the page is opened as `/?token=TOKEN`."""
        super().__init__(node, listen, **options)
        self._census_config = census

    async def __aenter__(self) -> Self:
        with ExitStack() as stack:
            self._census = stack.enter_context(census_of(self._node, self._census_config))
            await super().__aenter__()
            self._taking = stack.pop_all()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._taking.close()
        await super().__aexit__()

    def _add_routes(self, app: web.Application) -> None:
        super()._add_routes(app)
        app.router.add_get("/network.json", self._network)
        for name in ("dashboard.html", "dashboard.css", "dashboard.js"):
            path = "/" if name.endswith(".html") else f"/{name}"
            app.router.add_get(path, _file(name))
            self._open_paths.add(path)

    async def _network(self, request: web.Request) -> web.StreamResponse:
        text = json_line(picture(self._node, self._census))
        return web.Response(text=text, content_type="application/json", headers=_HEADERS)


def _file(name: str) -> Any:
    text = (resources.files("pubsub.doors") / "assets" / name).read_text()

    async def answer(request: web.Request) -> web.StreamResponse:
        kind = _TYPES[name.rpartition(".")[2]]
        return web.Response(text=text, content_type=kind, headers=_HEADERS)

    return answer
