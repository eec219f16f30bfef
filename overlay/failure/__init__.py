"""The failure detector: hints that a peer has crashed or is cut off, and that it is back.

`accrual` is how strongly one peer is suspected, `detector` the whole as a pure object, and
`failure_detector` runs it over the channels.
"""

from overlay.failure.config import FailureConfig
from overlay.failure.failure_detector import FailureDetector

__all__ = ["FailureConfig", "FailureDetector"]
