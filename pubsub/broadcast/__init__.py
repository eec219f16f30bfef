"""Broadcast to a group whose members are known: small protocols, composed into a stack (Appia).

`kernel` is how layers make a stack. The layers: `links` (with best-effort broadcast and the failure
detector), `reliable`, `majority`, `probabilistic` and `order`; `stacks` names the usual combinations.
`group` runs a stack over UDP; `log` is what a member keeps over a crash.
"""

from pubsub.broadcast.events import Broadcast, Crash, Deliver, LayerMessage, Receive, Send
from pubsub.broadcast.group import Group, GroupChannel, GroupError, GroupMessage
from pubsub.broadcast.kernel import (
    ChannelClose,
    CompositionError,
    Layer,
    LayerChannel,
    LayerEvent,
    LayerSession,
    Stack,
    TimeOut,
)
from pubsub.broadcast.links import BestEffort, PerfectDetector, PerfectLinks, UnreliableLinks
from pubsub.broadcast.majority import IndulgentUniform
from pubsub.broadcast.order import CausalLayer, FifoLayer
from pubsub.broadcast.probabilistic import Probabilistic
from pubsub.broadcast.process import GroupProcess
from pubsub.broadcast.reliable import LazyReliable, UniformAllAck

__all__ = [
    "BestEffort",
    "Broadcast",
    "CausalLayer",
    "ChannelClose",
    "CompositionError",
    "Crash",
    "Deliver",
    "FifoLayer",
    "Group",
    "GroupChannel",
    "GroupError",
    "GroupMessage",
    "GroupProcess",
    "IndulgentUniform",
    "Layer",
    "LayerChannel",
    "LayerEvent",
    "LayerMessage",
    "LayerSession",
    "LazyReliable",
    "PerfectDetector",
    "PerfectLinks",
    "Probabilistic",
    "Receive",
    "Send",
    "Stack",
    "TimeOut",
    "UniformAllAck",
    "UnreliableLinks",
]
