"""A file system that is not POSIX, on loopback: whole objects under names, by the REST interface of WebHDFS.

Hadoop's own client speaks it (`webhdfs://HOST:PORT/...`), so Spark uses it as it uses any other. As in an
object store an object appears when its last byte is there, directories exist only as parts of names, and a
directory is renamed object by object. There are no locks and nothing is appended.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

PREFIX = "/webhdfs/v1"
REFUSED = "/secret"
"""Nobody may read or write below it."""


class ObjectStore(ThreadingHTTPServer):
    """Objects by name."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.objects: dict[str, bytes] = {}
        self.made: set[str] = set()
        """Directories that were made and may have nothing in them."""

    @property
    def uri(self) -> str:
        return f"webhdfs://127.0.0.1:{self.server_port}"

    def names(self, below: str) -> list[str]:
        return sorted(name for name in list(self.objects) if name.startswith(f"{below}/"))

    def status(self, path: str) -> dict[str, Any] | None:
        path = path.rstrip("/") or "/"
        if path in self.objects:
            return _status("FILE", len(self.objects[path]))
        inside = path == "/" or path in self.made or self.names(path)
        return _status("DIRECTORY", 0) if inside else None

    def children(self, path: str) -> list[dict[str, Any]]:
        path = path.rstrip("/")
        if path in self.objects:
            return [_status("FILE", len(self.objects[path]))]
        known = [*self.names(path), *(name for name in self.made if name.startswith(f"{path}/"))]
        names = {name[len(path) + 1 :].partition("/")[0] for name in known}
        found = [(name, self.status(f"{path}/{name}")) for name in sorted(names)]
        return [status | {"pathSuffix": name} for name, status in found if status]

    def rename(self, source: str, target: str) -> bool:
        if self.status(source) is None:
            return False
        if (there := self.status(target)) and there["type"] == "DIRECTORY":
            target = f"{target}/{source.rpartition('/')[2]}"
        for name in [source, *self.names(source)]:
            if name in self.objects:
                self.objects[target + name[len(source) :]] = self.objects.pop(name)
        for name in [one for one in self.made if one == source or one.startswith(f"{source}/")]:
            self.made.discard(name)
            self.made.add(target + name[len(source) :])
        return True

    def delete(self, path: str) -> bool:
        found = self.status(path) is not None
        for name in [path, *self.names(path)]:
            self.objects.pop(name, None)
        self.made = {one for one in self.made if one != path and not one.startswith(f"{path}/")}
        return found


def _status(kind: str, length: int) -> dict[str, Any]:
    return {
        "type": kind,
        "length": length,
        "pathSuffix": "",
        "owner": "anyone",
        "group": "anyone",
        "permission": "755",
        "accessTime": 0,
        "modificationTime": 1,
        "blockSize": 1 << 27,
        "replication": 1,
    }


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: ObjectStore

    def log_message(self, *_: Any) -> None:
        pass

    def _answer(self, found: Any = None, code: int = 200, **headers: str) -> None:
        body = found if isinstance(found, bytes) else json.dumps(found).encode() if found else b""
        self.send_response(code)
        # Without a type of content: Hadoop's client would read it by a library that Spark does not bring.
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def _error(self, code: int, java: str, message: str) -> None:
        told = {"exception": java.rpartition(".")[2], "javaClassName": java, "message": message}
        self._answer({"RemoteException": told}, code)

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        parts = []
        while size := int(self.rfile.readline(), 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(parts)

    def _handle(self) -> None:
        body = self._body()
        parts = urlsplit(self.path)
        path = unquote(parts.path.removeprefix(PREFIX)).rstrip("/") or "/"
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        if path.startswith(REFUSED):
            refused = "org.apache.hadoop.security.AccessControlException"
            self._error(403, refused, f"Permission denied: user=anyone, inode={path}")
            return
        getattr(self, f"_{query['op'].lower()}", self._unknown)(path, query, body)

    do_GET = do_PUT = do_POST = do_DELETE = _handle

    def _unknown(self, path: str, query: dict[str, str], body: bytes) -> None:
        self._error(400, "java.lang.UnsupportedOperationException", f"no {query['op']} here")

    def _missing(self, path: str) -> None:
        self._error(404, "java.io.FileNotFoundException", f"File does not exist: {path}")

    def _getfilestatus(self, path: str, query: dict[str, str], body: bytes) -> None:
        found = self.server.status(path)
        self._answer({"FileStatus": found}) if found else self._missing(path)

    def _liststatus(self, path: str, query: dict[str, str], body: bytes) -> None:
        if self.server.status(path) is None:
            return self._missing(path)
        return self._answer({"FileStatuses": {"FileStatus": self.server.children(path)}})

    def _liststatus_batch(self, path: str, query: dict[str, str], body: bytes) -> None:
        if self.server.status(path) is None:
            return self._missing(path)
        listed = {"FileStatuses": {"FileStatus": self.server.children(path)}}
        return self._answer({"DirectoryListing": {"partialListing": listed, "remainingEntries": 0}})

    def _getfileblocklocations(self, path: str, query: dict[str, str], body: bytes) -> None:
        self._answer({"BlockLocations": {"BlockLocation": []}})

    def _mkdirs(self, path: str, query: dict[str, str], body: bytes) -> None:
        self.server.made.add(path)
        self._answer({"boolean": True})

    def _create(self, path: str, query: dict[str, str], body: bytes) -> None:
        if "here" not in query:
            return self._redirect()
        self.server.objects[path] = body
        return self._answer(code=201)

    def _open(self, path: str, query: dict[str, str], body: bytes) -> None:
        if path not in self.server.objects:
            return self._missing(path)
        if "here" not in query:
            return self._redirect()
        begin = int(query.get("offset", 0))
        end = begin + int(query["length"]) if "length" in query else None
        return self._answer(self.server.objects[path][begin:end])

    def _redirect(self) -> None:
        where = f"http://127.0.0.1:{self.server.server_port}{self.path}&here=true"
        self._answer(code=307, Location=where)

    def _rename(self, path: str, query: dict[str, str], body: bytes) -> None:
        done = self.server.rename(path, query["destination"])
        self._answer(None if "renameoptions" in query else {"boolean": done})

    def _delete(self, path: str, query: dict[str, str], body: bytes) -> None:
        self._answer({"boolean": self.server.delete(path)})


@contextmanager
def object_store() -> Iterator[ObjectStore]:
    """A store that serves while the block runs."""
    with ObjectStore() as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
