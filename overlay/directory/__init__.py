"""Who is in a topic, a uniform sample of it, its size: a tree of shards over the DHT."""

from overlay.directory.config import DirectoryConfig
from overlay.directory.peers import Peers
from overlay.directory.server import DirectoryServer, ShardReplication, serve_directory
from overlay.directory.service import DirectoryService
from overlay.directory.survey import TopicSize

__all__ = [
    "DirectoryConfig",
    "DirectoryServer",
    "DirectoryService",
    "Peers",
    "ShardReplication",
    "TopicSize",
    "serve_directory",
]
