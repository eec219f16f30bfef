"""The structured membership service: uniform tables of floor(ln N + c) members, drawn from the directory.

The rule as published: tables are drawn anew at an interval, and when a part of the community has changed.
Between drawings, a member that leaves says so to those who hold it, and one that crashes is removed when it
is suspected.

What is added unless `balance` is False: a newcomer asks those it drew to take it into their tables in place
of a random member: so it is held by as many as everyone else from the start, and tables stay uniform.
And a member that is in few tables sees to it that it is in more (see `balance`).

Needs of its context: messages may be lost, duplicated and reordered; what is lost is made up for at the
next drawing. Sends a `Drawn`, a `Confirm` and a `Released` per table entry and drawing, and nothing else when
idle: 3 (ln N + c) / longest_redraw_seconds messages a second, 0.12 at N = 1,000.
"""

from __future__ import annotations

from dataclasses import replace

from overlay.contact import Contact, PeerId
from overlay.context import Timer
from overlay.membership.config import StructuredConfig
from overlay.membership.lost import Lost
from overlay.membership.member import Member, Reaction
from overlay.membership.structured.balance import Holders
from overlay.membership.structured.drawing import (
    SOON,
    Confirm,
    Drawing,
    Drawn,
    DrawPace,
    Farewell,
    Released,
)

CLEARLY_LARGER = 1.25
"""How many times larger a community must have become for a member to believe it before it draws; less may be
the error of an estimate, and would be one table entry at most."""

SEEK_SECONDS = 2.0
"""How often a member that has lost others thinks of visiting one, +-50 % by chance (see `Lost`)."""

HURRIED_SECONDS = 0.5
"""The same while it visits all that it has lost, because one of them is back."""

MOST_MEMBERS = 1e9
"""No community is larger, whatever a peer says."""


class StructuredMembership(Member[StructuredConfig]):
    """One process's membership of one community, with a table drawn from the directory."""

    def _prepare(self) -> dict[type, Reaction]:
        context = self._context
        self._members: dict[PeerId, Contact] = {}
        self._table: tuple[Contact, ...] = ()
        self._holders = Holders(context, self._config, self._dropped)
        self._wanted = 0
        self._size = 1.0
        self._pace = DrawPace(self._config, context.now())
        self._drawing: Drawing | None = None
        self._found_nobody = 0
        """Drawings in a row that found nobody."""
        self._timer: Timer | None = None
        self._request: Timer | None = None
        """Runs after those in the table were asked to take this process in, until they may be asked again."""
        self._lost = Lost(context.random, SEEK_SECONDS)
        self._seeking: Timer | None = None
        self._is_mending = False
        """Some were found again, and the drawing that is due may come too early for others."""
        self._doubt: Timer | None = None
        """Runs out when the holders that live have said so, after many were lost."""
        return {
            Drawn: self._on_drawn,
            Confirm: self._on_confirm,
            Farewell: self._on_farewell,
            Released: self._on_released,
        }

    @property
    def table(self) -> tuple[Contact, ...]:
        return self._table

    @property
    def holders(self) -> list[Contact]:
        """The members that have this process in their tables, as far as it knows."""
        return self._holders.contacts

    @property
    def size(self) -> float:
        return max(self._size, len(self._table) + 1.0)

    def start(self) -> None:
        self._is_running = True
        self._directory.announce(self._topic)
        self._draw()

    def stop(self) -> None:
        if not self._is_running:
            return
        self._is_running = False
        self._directory.withdraw(self._topic)
        for holder in self.holders:
            self._context.send(holder, Farewell(self._topic))
        if self._drawing is not None:
            self._drawing.cancel()
        for timer in (self._timer, self._request, self._seeking, self._doubt):
            if timer is not None:
                timer.cancel()
        self._members.clear()
        self._holders.clear()
        self._table = ()

    def reconfigure(self, c: float) -> None:
        is_raised = c > self._config.c
        self._config = replace(self._config, c=c)
        if is_raised and self._is_running:
            self._draw()

    def suspect(self, peer: PeerId) -> None:
        member = self._members.get(peer)
        if member is not None:
            self._directory.report(self._topic, member)
            self._lost.remember(member, self._context.now())
            self._seek_soon()
        self._gone(peer)
        if self._drawing is not None:
            self._drawing.suspect(peer)

    # Drawing a table.

    def _draw(self) -> None:
        if self._drawing is not None:
            self._drawing.cancel()
        self._holders.forget_late()
        self._drawing = Drawing(
            self._topic, self._context, self._directory, self._config, self._ask_drawn, self._drew
        )

    def _ask_drawn(self, member: Contact, size: float) -> None:
        self._ask(member, size)
        self._listener.member_asked(member)

    def _ask(self, member: Contact, size: float) -> None:
        newcomer = not self._has_joined
        take_in = self._balance and (newcomer or self._is_held_by_few)
        seconds = self._config.longest_redraw_seconds
        self._context.send(member, Drawn(self._topic, seconds, size, take_in, newcomer))

    @property
    def _is_held_by_few(self) -> bool:
        return self._holders.are_few(self._wanted, self._size)

    def _drew(self, size: float, wanted: int, confirmed: list[Contact], silent: int) -> None:
        """Put those who confirmed in the table; when they are too few, some of the old ones stay.

        Those who were drawn and do not answer have crashed since they were announced; where they leave the
        table short, it is drawn again soon."""
        self._size, self._wanted = size, wanted
        new = {member.id: member for member in confirmed[:wanted]}
        for spare in confirmed[wanted:]:
            if spare.id not in self._members:
                self._context.send(spare, Released(self._topic))
        for peer, member in self._members.items():
            if len(new) >= wanted:
                break
            if peer not in new:
                new[peer] = member
                self._ask(member, size)
        old, self._members = self._members, new
        self._table = tuple(new.values())
        if not new:
            self._alone.add()
        for peer, member in old.items():
            if peer not in new:
                self._listener.member_removed(member)
                self._context.send(member, Released(self._topic))
        for peer, member in new.items():
            if peer not in old:
                self._listener.member_added(member)
        self._pace.drawn(self._context.now(), len(new))
        is_short = silent > 0 and len(confirmed) < wanted
        is_mending, self._is_mending = self._is_mending, False
        self._draw_in(self._until_next(is_short or is_mending))
        if not self._has_joined:
            self._has_joined = True
            self._listener.joined()
        else:
            self._listener.redrawn()

    def _until_next(self, is_lacking: bool) -> float:
        """Seconds to the next drawing if nothing changes. `is_lacking`: those who crashed left gaps in the
        table, or some who are back may not have been found yet."""
        config, chance = self._config, self._context.random
        if is_lacking:
            return config.shortest_redraw_seconds * chance.uniform(*SOON)
        if self._balance:
            # Those who came together are not to draw together ever after.
            first = 0.9 if self._has_joined else 0.2
            seconds = config.longest_redraw_seconds * chance.uniform(first, 1.1)
        else:
            seconds = self._pace.interval * chance.uniform(0.9, 1.1)
        if self._members:
            self._found_nobody = 0
            return seconds
        # Where there are others, all that was asked or answered was lost.
        first = 1.0 if self._size > 1 else config.shortest_redraw_seconds
        self._found_nobody += 1
        return min(seconds, first * 2.0 ** (self._found_nobody - 1))

    def _draw_in(self, seconds: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._context.call_later(seconds, self._draw)

    # What other members say.

    def _on_drawn(self, sender: Contact, message: Drawn) -> None:
        self._met(sender)
        is_known = sender.id in self._holders or sender.id in self._members
        self._holders.add(sender, message.seconds)
        if self._balance:
            self._be_asked_in(sender, message)
        elif message.newcomer and not is_known:
            self._changed()
        is_held = sender.id in self._members
        seconds = self._config.longest_redraw_seconds if is_held else 0.0
        self._context.send(sender, Confirm(self._topic, seconds))
        if message.seconds == 0:  # the sender had lost this process: the network was cut in two
            self._lost.visited(self._context.now())
            self._seek_sooner()

    def _be_asked_in(self, sender: Contact, message: Drawn) -> None:
        if message.take_in and sender.id not in self._members:
            if message.newcomer:
                self._grow(message.size)
            self._take_in(sender)
            if message.newcomer:
                self._changed()

    def _on_confirm(self, sender: Contact, message: Confirm) -> None:
        self._met(sender)
        if message.seconds > 0:
            self._holders.add(sender, message.seconds)
        if self._drawing is not None:
            self._drawing.confirmed(sender)

    def _on_farewell(self, sender: Contact, message: Farewell) -> None:
        self._gone(sender.id)

    def _on_released(self, sender: Contact, message: Released) -> None:
        self._holders.remove(sender.id)
        self._look_for_holders()

    def _seek_soon(self) -> None:
        if self._seeking is None and self._lost and self._is_running:
            seconds = HURRIED_SECONDS if self._lost.is_hurried else SEEK_SECONDS
            seconds *= self._context.random.uniform(0.5, 1.5)
            self._seeking = self._context.call_later(seconds, self._seek)

    def _seek(self) -> None:
        """Ask some of those that were lost whether they are back."""
        self._seeking = None
        for lost in self._lost.visits(self._context.now(), self.size):
            self._context.send(lost, Drawn(self._topic, 0.0, self._size, False, False))
        self._seek_soon()

    def _seek_sooner(self) -> None:
        if self._lost.is_hurried and self._seeking is not None:
            self._seeking.cancel()
            self._seeking = None
        self._seek_soon()

    def _met(self, sender: Contact) -> None:
        """One that was lost is back, and so may be many: draw as soon as the directory can know of them."""
        if not self._lost.heard(sender.id):
            return
        self._seek_sooner()
        if not self._is_mending:
            self._is_mending = True
            self._draw_in(self._config.settle_seconds * self._context.random.uniform(1.0, 3.0))

    def _grow(self, size: float) -> None:
        """One that drew just now says how many there are: if clearly more, tables are larger, too."""
        if CLEARLY_LARGER * self._size < size <= MOST_MEMBERS:
            self._size = size
            self._wanted = self._config.table_size(size)

    def _take_in(self, member: Contact) -> None:
        """Put a member into the table, in place of a random one when the table is full."""
        if self._members and len(self._members) >= self._wanted:
            replaced = self._context.random.choice(self._table)
            self._remove(replaced.id)
            self._context.send(replaced, Released(self._topic))
        self._members[member.id] = member
        self._table = tuple(self._members.values())
        self._listener.member_added(member)

    def _gone(self, peer: PeerId) -> None:
        self._holders.remove(peer)
        if self._remove(peer) and self._changed():
            # Those who hold this process may have crashed as well, and most of the others draw soon.
            if self._doubt is not None:
                self._doubt.cancel()
            self._doubt = self._context.call_later(self._holders.doubt(), self._look_for_holders)
        self._look_for_holders()

    def _remove(self, peer: PeerId) -> bool:
        member = self._members.pop(peer, None)
        if member is None:
            return False
        self._table = tuple(self._members.values())
        self._listener.member_removed(member)
        return True

    def _changed(self) -> bool:
        """Whether the next drawing comes sooner because of that."""
        now, chance = self._context.now(), self._context.random
        sooner = self._pace.changed(now, len(self._members), chance)
        if sooner is None or self._timer is None:
            return False
        self._draw_in(sooner)
        return True

    def _look_for_holders(self) -> None:
        """Held by few: ask those in the table to take this process in, and draw soon to ask others.

        Those in the table are asked again after a while if that did not help.
        """
        self._holders.forget_late()
        if not self._balance or not self._has_joined or not self._is_held_by_few:
            return
        self._draw_in(self._pace.soonest(self._context.now()))
        if self._request is None:
            for member in self._table:
                self._ask(member, self._size)
            pause = self._config.settle_seconds
            self._request = self._context.call_later(pause, self._look_again)

    def _look_again(self) -> None:
        self._request = None
        self._look_for_holders()
