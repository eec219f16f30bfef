"""Acknowledged channels: what is sent over an open channel arrives, once.

    channels = Channels(endpoint, ChannelConfig())
    channels.on_message(lambda sender, message: ...)
    await channels.to(contact).send(b"hello")

`core` is one end of a channel as a pure object, `table` those of a node; `transmitter` (with `send_buffer`,
`flight`, `congestion`, `rtt`) and `receiver` (with `inbox`, `reassembly`) are its two halves, `packet` and
`segment` the bytes. `channels` and `channel` run them on the event loop.
"""

from overlay.channel.channel import Channel
from overlay.channel.channels import Channels
from overlay.channel.config import ChannelConfig
from overlay.channel.core import MessageTooLarge
from overlay.channel.state import ChannelState, OnAck, PeerRestarted
from overlay.channel.table import TooManyChannels

__all__ = [
    "Channel",
    "ChannelConfig",
    "ChannelState",
    "Channels",
    "MessageTooLarge",
    "OnAck",
    "PeerRestarted",
    "TooManyChannels",
]
