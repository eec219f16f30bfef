"""Large payloads: files of any size, in pieces, from one node to all subscribers of a topic."""

from pubsub.files.manifest import FileError, Manifest
from pubsub.files.receiving import Transfer
from pubsub.files.sharing import FileSharing

__all__ = ["FileError", "FileSharing", "Manifest", "Transfer"]
