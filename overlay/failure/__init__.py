"""The failure detector: hints that a peer has crashed or is cut off, and that it is back.

`detector` is the whole as a pure object, `probes` asks peers without a channel, and `driver` runs both over a
node's channels and socket.
"""

from overlay.failure.detector import FailureConfig
from overlay.failure.driver import FailureDetector

__all__ = ["FailureConfig", "FailureDetector"]
