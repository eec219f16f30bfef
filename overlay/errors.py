"""The root of every exception that this project raises on purpose.

Two questions are answered by the type: whose fault it was, and what to do. Wrong arguments raise
`UsageError`; a network that does not answer raises `NetworkError`. What a *peer* sends never raises:
it is counted under a reason and dropped (see `overlay.metrics`).
"""


class CamcastError(Exception):
    """Anything this project raises on purpose; the text is one sentence that says what to do."""


class UsageError(CamcastError, ValueError):
    """The caller passed something that cannot work; nothing was changed."""


class NetworkError(CamcastError):
    """The network, or the peers on it, did not do what the call needs."""


class ClosedError(CamcastError):
    """The object was closed before or during the call."""
