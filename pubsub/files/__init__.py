"""Large payloads: files of any size, in pieces, from one node to all subscribers of a topic."""

from pubsub.files.errors import FileError
from pubsub.files.manifest import Manifest
from pubsub.files.sharing import FileSharing
from pubsub.files.transfer import Transfer

__all__ = ["FileError", "FileSharing", "Manifest", "Transfer"]
