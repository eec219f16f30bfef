"""Distributors: processes of the overlay that serve crowds of light publishers and subscribers."""

from pubsub.distributors.archive_history import ArchiveHistory
from pubsub.distributors.clients import Publisher, ServiceMessage, ServiceSubscription, Subscriber
from pubsub.distributors.config import ClientConfig, DistributorConfig
from pubsub.distributors.distributor import Distributor
from pubsub.distributors.light_client import NoDistributor, NoSuchService
from pubsub.distributors.protocol.exchange import History
from pubsub.reliable.runs import Gap, GapError

__all__ = [
    "ArchiveHistory",
    "ClientConfig",
    "Distributor",
    "DistributorConfig",
    "Gap",
    "GapError",
    "History",
    "NoDistributor",
    "NoSuchService",
    "Publisher",
    "ServiceMessage",
    "ServiceSubscription",
    "Subscriber",
]
