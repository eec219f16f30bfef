"""Datagrams: one endpoint a node, over whatever carries datagrams.

`endpoint` gathers frames into datagrams and hands arriving frames to their layer; `frame` is their form and
`seal` their protection. `udp` is the only transport; `endpoint.Transport` says what another one needs.
"""

from overlay.transport.endpoint import Endpoint, EndpointConfig, OpenTransport, Transport
from overlay.transport.frame import Kind
from overlay.transport.udp import ListenError

__all__ = ["Endpoint", "EndpointConfig", "Kind", "ListenError", "OpenTransport", "Transport"]
