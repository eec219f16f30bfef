"""Finding nodes of one's network on the local network by multicast DNS, beside bootstrap addresses.

Each node that asks for it (`Node(discover=True)`) announces itself as a service, `_camcast._udp.local.`, and
listens a moment for others before it joins. With a network key the announcement has a fingerprint of the key,
and nodes of other networks are left alone. An announcement is a hint and proves nothing: whoever is found is
asked to answer as any bootstrap node is.

Nodes answer for themselves: one that has crashed is not found. Two that start in the same moment find each
other, because each announces itself first. It needs the extra `lan`, which brings `zeroconf`.
"""

from __future__ import annotations

import asyncio
import hashlib
import socket
from collections.abc import Sequence
from typing import Any, Self

from overlay.contact import Address, Contact
from overlay.errors import NetworkError, UsageError

SERVICE = "_camcast._udp.local."

LISTEN_SECONDS = 1.0
"""How long a node listens for others before it begins a network of its own. Answers come within 120 ms
(RFC 6762, section 6)."""

ENOUGH = 8
"""Nodes that are asked to answer; with this many the node stops listening."""

FINGERPRINT_BYTES = 8


def fingerprint(key: bytes) -> str:
    """Tells networks apart; the key cannot be found from it."""
    name = hashlib.blake2s(key, digest_size=FINGERPRINT_BYTES, person=b"lan")
    return name.hexdigest()


class Lan:
    """A node's announcement, while it is entered."""

    def __init__(self, contact: Contact, keys: Sequence[bytes]) -> None:
        try:
            from zeroconf import InterfaceChoice, IPVersion
            from zeroconf.asyncio import AsyncServiceInfo, AsyncZeroconf
        except ImportError:
            raise UsageError("discover needs the extra 'lan': pip install 'camcast[lan]'") from None
        address = contact.address
        self._contact = contact
        self._networks = {fingerprint(key) for key in keys} or {"open"}
        family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
        self._info = AsyncServiceInfo(
            SERVICE,
            f"{contact.id.hex()}.{SERVICE}",
            port=address.port,
            addresses=[socket.inet_pton(family, address.host)],
            properties={"networks": ",".join(sorted(self._networks))},
            server=f"camcast-{contact.id.hex()[:16]}.local.",
        )
        # On loopback nothing is said to the network around.
        interfaces: Any = InterfaceChoice.All
        if family == socket.AF_INET and address.is_loopback:
            interfaces = [address.host]
        version = IPVersion.V4Only if family == socket.AF_INET else IPVersion.All
        try:
            self._zeroconf = AsyncZeroconf(interfaces=interfaces, ip_version=version)
        except OSError as error:
            raise NetworkError(
                f"multicast DNS does not work here ({error}): name bootstrap addresses instead"
            ) from None

    async def __aenter__(self) -> Self:
        try:
            # Its name has the node's id in it: nobody need be asked whether it is taken.
            await (
                await self._zeroconf.async_register_service(self._info, cooperating_responders=True)
            )
        except BaseException:
            await self._zeroconf.async_close()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Take the announcement back."""
        await self._zeroconf.async_unregister_all_services()
        await self._zeroconf.async_close()

    async def find(self) -> list[Address]:
        """Nodes of the same network, as many as are needed to join it; none where there is none."""
        from zeroconf import ServiceStateChange
        from zeroconf.asyncio import AsyncServiceBrowser, AsyncServiceInfo

        found: dict[str, Address] = {}
        enough = asyncio.Event()
        asking: set[asyncio.Task[None]] = set()

        async def ask(name: str) -> None:
            info = AsyncServiceInfo(SERVICE, name)
            if await info.async_request(self._zeroconf.zeroconf, int(LISTEN_SECONDS * 1000)):
                address = self._address_in(info)
                if address is not None:
                    found[name] = address
                    if len(found) >= ENOUGH:
                        enough.set()

        def heard(
            zeroconf: object, service_type: str, name: str, state_change: ServiceStateChange
        ) -> None:
            if state_change is ServiceStateChange.Added and name != self._info.name:
                task = asyncio.get_running_loop().create_task(ask(name))
                asking.add(task)
                task.add_done_callback(asking.discard)

        browser = AsyncServiceBrowser(self._zeroconf.zeroconf, SERVICE, handlers=[heard])
        try:
            async with asyncio.timeout(LISTEN_SECONDS):
                await enough.wait()
        except TimeoutError:
            pass
        finally:
            for task in list(asking):
                task.cancel()
            await browser.async_cancel()
        return list(found.values())

    def _address_in(self, info: Any) -> Address | None:
        """Where a node of this network is, as it says; None for anything else. Anybody may say anything."""
        networks = (info.decoded_properties or {}).get("networks") or ""
        hosts = info.parsed_addresses()
        if not self._networks & set(networks.split(",")) or not hosts or not info.port:
            return None
        return Address(hosts[0], info.port)
