"""Distributors: processes of the overlay that serve crowds of light publishers and subscribers."""

from pubsub.distributors.archive_history import ArchiveHistory
from pubsub.distributors.client import NoDistributor, NoSuchService
from pubsub.distributors.config import ClientConfig, DistributorConfig
from pubsub.distributors.distributor import Distributor
from pubsub.distributors.protocol.recall import History
from pubsub.distributors.publisher import Publisher
from pubsub.distributors.subscriber import Message, ServiceSubscription, Subscriber
from pubsub.reliable.runs import Gap, GapError

__all__ = [
    "ArchiveHistory",
    "ClientConfig",
    "Distributor",
    "DistributorConfig",
    "Gap",
    "GapError",
    "History",
    "Message",
    "NoDistributor",
    "NoSuchService",
    "Publisher",
    "ServiceSubscription",
    "Subscriber",
]
