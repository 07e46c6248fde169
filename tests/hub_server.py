"""A stand-in for Hugging Face on loopback: one model, served as slowly as a test likes."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

COMMIT = "a" * 40
PIECE = 4096


class Hub(ThreadingHTTPServer):
    """Serves the files of a folder as the model `org/small`.

    Attributes:
        fetched: names of the files that were asked for with GET.
        held: name of a file that stops after its first piece.
        holding: set once it has stopped.
        gate: set by a test to let it go on.
    """

    daemon_threads = True

    def __init__(self, folder: Path) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.files = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
        self.fetched: list[str] = []
        self.held = ""
        self.gate = threading.Event()
        self.holding = threading.Event()

    @property
    def address(self) -> str:
        """What HF_ENDPOINT takes."""
        return f"http://127.0.0.1:{self.server_address[1]}"


class Handler(BaseHTTPRequestHandler):
    """The few requests that a download makes."""

    server: Hub
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""

    def do_HEAD(self) -> None:
        """A file's size and hash."""
        self._file(body=False)

    def do_GET(self) -> None:
        """The list of files, or one of them."""
        path = urlsplit(self.path).path
        if path.startswith("/api/models/org/small/tree/"):
            self._json([_entry(name, data) for name, data in sorted(self.server.files.items())])
        elif path.startswith("/api/models/org/small"):
            siblings = [{"rfilename": name} for name in sorted(self.server.files)]
            self._json({"id": "org/small", "sha": COMMIT, "siblings": siblings, "tags": []})
        elif path.startswith("/api/models/org/gated"):
            self._refuse(403, "GatedRepo")
        elif path.startswith("/org/small/resolve/"):
            self._file(body=True)
        elif path.startswith("/api/models/org/broken"):
            self._refuse(500, "")
        else:
            self._refuse(404, "RepoNotFound")

    def _file(self, *, body: bool) -> None:
        name = unquote(urlsplit(self.path).path.rsplit("/", 1)[-1])
        data = self.server.files.get(name)
        if data is None:
            self._refuse(404, "EntryNotFound")
            return
        self.send_response(200)
        self.send_header("ETag", f'"{hashlib.sha256(data).hexdigest()}"')
        self.send_header("X-Repo-Commit", COMMIT)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if body:
            self.server.fetched.append(name)
            self._send(name, data)

    def _send(self, name: str, data: bytes) -> None:
        try:
            if name != self.server.held:
                self.wfile.write(data)
                return
            self.wfile.write(data[:PIECE])
            self.wfile.flush()
            self.server.holding.set()
            self.server.gate.wait(60)
            self.wfile.write(data[PIECE:])
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    def _json(self, value: object) -> None:
        data = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _refuse(self, status: int, code: str) -> None:
        self.send_response(status)
        if code:
            self.send_header("X-Error-Code", code)
        self.send_header("Content-Length", "0")
        self.end_headers()


def _entry(name: str, data: bytes) -> dict[str, object]:
    oid = hashlib.sha1(data, usedforsecurity=False).hexdigest()
    entry: dict[str, object] = {"type": "file", "path": name, "size": len(data), "oid": oid}
    if name.endswith(".safetensors"):
        digest = hashlib.sha256(data).hexdigest()
        entry["lfs"] = {"oid": digest, "size": len(data), "pointerSize": 134}
    return entry


@contextmanager
def hub_server(folder: Path) -> Iterator[Hub]:
    """Serve a folder for as long as the block lasts."""
    hub = Hub(folder)
    thread = threading.Thread(target=hub.serve_forever, daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        hub.gate.set()
        hub.shutdown()
        hub.server_close()
        thread.join()
