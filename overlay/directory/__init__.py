"""Who is in a topic, a uniform sample of it, its size: a tree of shards over the DHT."""

from overlay.directory.config import DirectoryConfig
from overlay.directory.directory import Directory
from overlay.directory.peers import Peers
from overlay.directory.server import DirectoryServer
from overlay.directory.topic_size import TopicSize

__all__ = ["Directory", "DirectoryConfig", "DirectoryServer", "Peers", "TopicSize"]
