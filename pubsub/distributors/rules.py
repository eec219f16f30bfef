"""In a network with an authority: whose messages distributors and their clients take (see `pubsub.gate`).

The rights of a service are those on its topic: the topic that feeds the service, or
`/distributors/GROUP/NAME`, where a name that cannot be a level of a topic stands for its group. Who
subscribes needs the right to subscribe, who creates, removes or publishes the right to publish. Distributors
need the right to distribute on `/distributors/GROUP`; clients take nothing from others. Distributors believe
each other about what was published: each has checked its own clients.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from overlay.errors import UsageError
from overlay.topic_name import TopicNameError, check_topic_name
from pubsub.distributors import messages
from pubsub.gate import Rule
from pubsub.rights import Action, Holder

if TYPE_CHECKING:
    from pubsub.distributors.protocol.distributor import DistributorCore


def group_topic(group: str) -> str:
    """The topic under which the distributors of a group are announced."""
    if not group or "/" in group:
        raise UsageError(
            f"group={group!r} is not a valid name of a group: it must be one word without slashes"
        )
    return check_topic_name(f"/distributors/{group}")


def service_topic(group: str, service: str, topics: Mapping[str, str]) -> str:
    """The topic whose rights count for a service; `topics`: those that feed services."""
    if service in topics:
        return topics[service]
    try:
        return check_topic_name(f"/distributors/{group}/{service}")
    except TopicNameError:
        return group_topic(group)


def rules_of_client(groups: Callable[[], Iterable[str]]) -> Mapping[type, Rule]:
    """What the clients on one node take from distributors; `groups`: of which groups."""
    return dict.fromkeys(
        (
            messages.ClientAnswer,
            messages.Alive,
            messages.PublicationAck,
            messages.StreamDeliveries,
            messages.Recalled,
            messages.ServiceList,
        ),
        lambda peer, message: any(
            peer.may(Action.DISTRIBUTE, group_topic(group)) for group in groups()
        ),
    )


class _Rules:
    """Of one distributor."""

    def __init__(
        self, core: DistributorCore, group: str, groups: Sequence[str], topics: Mapping[str, str]
    ) -> None:
        self._core = core
        self._group = group
        self._groups = [group_topic(name) for name in groups]
        self._topics = topics

    def may(self, peer: Holder, action: Action, service: str) -> bool:
        return peer.may(action, service_topic(self._group, service, self._topics))

    def is_colleague(self, peer: Holder, message: object = None) -> bool:
        return peer.may(Action.DISTRIBUTE, group_topic(self._group))

    def is_distributor(self, peer: Holder, message: object = None) -> bool:
        """Of this group, or of one above or below."""
        return any(peer.may(Action.DISTRIBUTE, topic) for topic in self._groups)

    def request(self, peer: Holder, request: messages.ClientRequest) -> bool:
        if request.action in (messages.ClientAction.CREATE, messages.ClientAction.REMOVE):
            return self.may(peer, Action.PUBLISH, request.service)
        if request.action == messages.ClientAction.SUBSCRIBE:
            return self.may(peer, Action.SUBSCRIBE, request.service)
        return True

    def want(self, peer: Holder, want: messages.Want) -> bool:
        return self.is_colleague(peer) or self.may(peer, Action.SUBSCRIBE, want.service)

    def spread(self, peer: Holder, spread: messages.SpreadBlocks) -> bool:
        services = {block.service for block in spread.blocks}
        return self.is_colleague(peer) or all(
            self.may(peer, Action.PUBLISH, service) for service in services
        )

    def ack(self, peer: Holder, ack: messages.StreamAck) -> bool:
        """A subscriber whose right has ended is not heard any more, and then not served."""
        service = self._core.service_of(ack.stream)
        return service is None or self.may(peer, Action.SUBSCRIBE, service)


def rules_of_distributor(
    core: DistributorCore, group: str, groups: Sequence[str], topics: Mapping[str, str]
) -> Mapping[type, Rule]:
    """What a distributor takes; `groups`: its own, those above and below; `topics`: of the services that
    topics feed."""
    rules = _Rules(core, group, groups, topics)
    views = (messages.ViewHello, messages.Prepare, messages.Propose, messages.Vote, messages.Digest)
    return {
        **dict.fromkeys(views, rules.is_colleague),
        messages.Want: rules.want,
        messages.SpreadBlocks: rules.spread,
        messages.ClientRequest: rules.request,
        messages.StreamAck: rules.ack,
        messages.ListServices: rules.is_distributor,
        messages.Raise: rules.is_distributor,
        messages.PublicationAck: rules.is_distributor,
    }
