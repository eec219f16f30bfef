"""The door for web services: WS-ReliableMessaging 1.1 and 1.2 into an archive."""

from pubsub.doors.wsrm.sequences import WsrmConfig
from pubsub.doors.wsrm.server import WsrmDoor

__all__ = ["WsrmConfig", "WsrmDoor"]
