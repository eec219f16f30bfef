"""Acknowledged channels: what is sent over an open channel arrives, once.

    channels = Channels(endpoint, ChannelConfig())
    channels.on_message(lambda sender, message: ...)
    await channels.to(contact).send(b"hello")

`core` is one end of a channel as a pure object, made of `sending`, `receiving` and `recovery`. Its states are
the tables of `machine`, its bytes those of `packet`. `table` holds the channels of a node; `driver` runs them
on the event loop.
"""

from overlay.channel.buffer import MessageTooLarge, OnAck, Until
from overlay.channel.config import ChannelConfig
from overlay.channel.driver import Channel, Channels
from overlay.channel.machine import ChannelState, PeerRestarted
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
    "Until",
]
