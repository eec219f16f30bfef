"""What a publisher and a subscription share: one service, and the way to a distributor that serves it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from overlay.contact import Contact
from overlay.context import Context
from pubsub.distributors.config import ClientConfig
from pubsub.distributors.messages import ClientAction, ClientAnswer, ClientRequest
from pubsub.reliable.primary import PrimaryKeeper


class ClientCore:
    """A light client of one service; it is what its keeper calls `Connecting` (see `reliable.primary`)."""

    def __init__(
        self,
        context: Context,
        channel: Context,
        config: ClientConfig,
        service: str,
        want_distributors: Callable[[], None],
        *,
        no_gap: bool = False,
    ) -> None:
        """`context` sends datagrams, and `channel` what may not fit one."""
        self.service = service
        self.no_gap = no_gap
        self.keeper = PrimaryKeeper(context, config, self)
        self.want_servers = want_distributors
        self.refusal = ""
        """Why the last distributor that was asked refused."""
        self.was_connected = False
        self.is_over = False
        """Whether nothing is sent, or delivered, any more."""
        self._context = context
        self._channel = channel
        self._config = config
        self._number = 0
        """Of the latest request."""
        self._began_at = context.now()
        self._handlers: Mapping[type, Callable[[Contact, Any], None]] = {}
        """What takes each type of message."""

    def start(self, contacts: Iterable[Contact] = ()) -> None:
        self._number = self._context.random.getrandbits(62)
        self._began_at = self._context.now()
        self.keeper.start(contacts)

    def stop(self) -> None:
        self.is_over = True
        self.keeper.close()

    def request(self, to: Contact) -> None:
        """Ask a distributor to serve this client; each kind of client says what it wants."""
        raise NotImplementedError

    def ask(self, primary: Contact) -> None:
        """Ask the distributor that serves this client for a sign of life."""
        raise NotImplementedError

    def lost(self, primary: Contact) -> None:
        """Nothing to do, if a client does not say otherwise."""

    def _request(self, action: ClientAction, have: dict[bytes, int] | None = None) -> ClientRequest:
        since = self._context.now() - self._began_at
        return ClientRequest(self._number, action, self.service, self.no_gap, have, since)

    def receive(self, sender: Contact, message: object) -> None:
        """What a distributor says to a client, perhaps to another one on this node."""
        take = self._handlers.get(type(message))
        if take is not None:
            take(sender, message)

    def receive_answer(self, sender: Contact, answer: ClientAnswer) -> None:
        candidate = self.keeper.candidate
        if answer.number != self._number or candidate is None or sender.id != candidate.id:
            return
        self.refusal = answer.refusal
        if answer.refusal:
            self._refused(sender)
        else:
            self.keeper.connected(sender)
            self._connected(answer)
            self.was_connected = True

    def _refused(self, sender: Contact) -> None:
        self.keeper.refused(sender)

    def _connected(self, answer: ClientAnswer) -> None:
        """Go on with the distributor that has just agreed to serve this client."""
        raise NotImplementedError

    def _is_primary(self, sender: Contact) -> bool:
        primary = self.keeper.primary
        return primary is not None and sender.id == primary.id
