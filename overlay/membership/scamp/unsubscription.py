"""Unsubscription: a member that leaves hands its place in each view on to somebody it holds.

Of the l members that hold the leaver, l - c - 1 put a member of the leaver's view in its place, taking turns,
and c + 1 let go of it without: so the mean view goes on being (c + 1) ln N as N falls. Those that the leaver
holds hear of it too, or their in-views would go stale.
"""

from __future__ import annotations

from overlay.contact import Contact
from overlay.membership.scamp.messages import Subscription, Unsubscribe
from overlay.membership.scamp.state import Community


def unsubscribe(community: Community) -> None:
    """Tell everyone on either end of an arc with this process that it leaves."""
    context, topic = community.context, community.topic
    now = context.now()
    offered = [
        held.subscription(now)
        for contact in community.view.table
        if (held := community.view.get(contact.id)) is not None
    ]
    holders = community.holders.contacts
    context.random.shuffle(holders)
    context.random.shuffle(offered)
    replaced = len(holders) - community.config.c - 1
    for turn, holder in enumerate(holders):
        replacement = _replacement(offered, turn, holder) if turn < replaced else None
        context.send(holder, Unsubscribe(topic, replacement))
    for contact in community.view.table:
        if contact.id not in community.holders:
            context.send(contact, Unsubscribe(topic, None))


def _replacement(offered: list[Subscription], turn: int, holder: Contact) -> Subscription | None:
    for shift in range(len(offered)):
        choice = offered[(turn + shift) % len(offered)]
        if choice.subscriber.id != holder.id:
            return choice
    return None


def unsubscribed(community: Community, leaver: Contact, message: Unsubscribe) -> None:
    """A member leaves: forget it, and hold the one in its place."""
    was_held = community.lose(leaver.id)
    community.holders.remove(leaver.id)
    replacement = message.replacement
    if (
        was_held
        and replacement is not None
        and replacement.subscriber.id not in (leaver.id, community.context.contact.id)
        and replacement.subscriber.id not in community.view
        and community.is_sound(replacement)
    ):
        community.hold(replacement)
