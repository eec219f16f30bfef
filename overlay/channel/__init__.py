"""Acknowledged channels: what is sent over an open channel arrives, once.

    channels = Channels(endpoint, ChannelConfig())
    channels.on_message(lambda sender, message: ...)
    await channels.to(contact).send(b"hello")

`protocol` is the whole protocol as pure objects; `channels` and `channel` run it on the event loop.
"""

from overlay.channel.channel import Channel
from overlay.channel.channels import Channels
from overlay.channel.protocol.config import ChannelConfig
from overlay.channel.protocol.send_buffer import MessageTooLarge
from overlay.channel.protocol.state import ChannelState, OnAck, PeerRestarted
from overlay.channel.protocol.table import TooManyChannels

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
