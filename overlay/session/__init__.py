"""Sessions: every pair of peers of a sealed network has keys of its own, and knows who is at the other end.

`sessions` opens, answers, renews and ends sessions; `session` seals and opens datagrams; `noise` is the
handshake, `packets` the datagrams that travel outside of sessions, `admission` whose openings are answered.
"""

from overlay.session.config import SessionConfig
from overlay.session.network_key import NetworkKeyError, check_keys, new_key, parse_key

__all__ = ["NetworkKeyError", "SessionConfig", "check_keys", "new_key", "parse_key"]
