"""SOAP messages of WS-ReliableMessaging: read strictly, written plainly. Nothing here does I/O.

SOAP 1.1 and 1.2, WS-Addressing 1.0, WS-ReliableMessaging 1.1 and 1.2 (they share one namespace). An answer is
in the version of its request. What a client sends is never trusted: no entities, no document types, no
network, bounded size and depth. What is wrong with a message raises `SoapFault`, which can be written.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from lxml import etree

from pubsub.event import LAST_NUMBER

RM = "http://docs.oasis-open.org/ws-rx/wsrm/200702"
WSA = "http://www.w3.org/2005/08/addressing"
ANONYMOUS = f"{WSA}/anonymous"


class Version(NamedTuple):
    """A version of SOAP."""

    namespace: str
    content_type: str
    sender: str
    receiver: str


SOAP_11 = Version("http://schemas.xmlsoap.org/soap/envelope/", "text/xml", "Client", "Server")
SOAP_12 = Version(
    "http://www.w3.org/2003/05/soap-envelope", "application/soap+xml", "Sender", "Receiver"
)
_VERSIONS = {version.namespace: version for version in (SOAP_11, SOAP_12)}
_OF_THE_PROTOCOL = frozenset((*_VERSIONS, RM, WSA))
_PREFIXES = {"wsa": WSA, "wsrm": RM}

MOST_NACKS = 100
"""Missing numbers that one acknowledgement names; the others are named when these have come."""

MOST_TEXT = 1024
"""Characters of an identifier or address."""


class SoapFault(Exception):
    """What is answered in place of what was asked for."""

    def __init__(
        self, reason: str, code: str = "", identifier: str = "", *, by_sender: bool = True
    ) -> None:
        """`code`: one of WS-ReliableMessaging, such as `UnknownSequence`, or of SOAP, `MustUnderstand` or
        `VersionMismatch`. `identifier`: of the sequence that it is about. `by_sender`: the request is wrong,
        and it is of no use to send it again."""
        super().__init__(reason)
        self.code = code
        self.identifier = identifier
        self.by_sender = by_sender
        self.version: Version | None = None
        """That of the request, if it is known."""


@dataclass(frozen=True, slots=True)
class Create:
    """A client asks for a sequence."""

    acks_to: str
    expires: float | None
    """Seconds, if the client says so; 0 stands for never."""


@dataclass(frozen=True, slots=True)
class End:
    """A client sends nothing new in a sequence: `Close`, or forgets it: `Terminate`."""

    name: str
    identifier: str


@dataclass(frozen=True, slots=True)
class Request:
    """What a client's envelope says."""

    version: Version
    message_id: str
    command: Create | End | None
    sequence: tuple[str, int] | None
    """The identifier and the message's number."""
    ack_requested: tuple[str, ...]
    content: str
    """What is in the body, as XML."""


@dataclass(frozen=True, slots=True)
class Acknowledgement:
    """What has become safe of a sequence: everything up to a number."""

    identifier: str
    upto: int
    nacks: tuple[int, ...] = ()
    """Numbers that are missing below one that has come; if any are given, nothing else is said."""
    final: bool = False


# Reading.


def read(envelope: bytes) -> Request:
    """What an envelope says; `SoapFault` when it is not one that can be answered otherwise."""
    root = _parse(envelope)
    name = etree.QName(root)
    version = _VERSIONS.get(name.namespace)
    if version is None or name.localname != "Envelope":
        raise SoapFault(
            "the message is not a SOAP envelope of version 1.1 or 1.2", "VersionMismatch"
        )
    try:
        return _read_parts(version, root)
    except SoapFault as fault:
        fault.version = version
        raise


def _read_parts(version: Version, root: Any) -> Request:
    children = [part for part in root if _is_element(part)]
    parts = {part.tag: part for part in children}
    header, body = (parts.pop(_soap(version, name), None) for name in ("Header", "Body"))
    if body is None or parts or len(children) > 1 + (header is not None):
        raise SoapFault("the envelope has no body, or more than a header and a body")
    if "".join(filter(None, (body.text, *(part.tail for part in body)))).strip():
        raise SoapFault("the body has text that is not in an element")
    blocks = [] if header is None else [block for block in header if _is_element(block)]
    _check_understood(version, blocks)
    content = [part for part in body if _is_element(part)]
    sequences = [block for block in blocks if block.tag == _rm("Sequence")]
    if len(sequences) > 1:
        raise SoapFault("a message is in one sequence: the header names several")
    message_ids = [block for block in blocks if block.tag == f"{{{WSA}}}MessageID"]
    asked = [_text(block, "Identifier") for block in blocks if block.tag == _rm("AckRequested")]
    return Request(
        version,
        (message_ids[0].text or "")[:MOST_TEXT] if message_ids else "",
        _command(content),
        _sequence(sequences[0]) if sequences else None,
        tuple(dict.fromkeys(asked)),
        "".join(map(_as_text, content)),
    )


def _parse(envelope: bytes) -> Any:
    parser = etree.XMLParser(
        resolve_entities=False,
        load_dtd=False,
        no_network=True,
        huge_tree=False,
        remove_comments=True,
        remove_pis=True,
    )
    try:
        root = etree.fromstring(envelope, parser)
    except (etree.XMLSyntaxError, ValueError) as error:
        raise SoapFault(f"the message is not XML: {error}"[:200]) from None
    if root.getroottree().docinfo.internalDTD is not None:
        raise SoapFault("a SOAP message has no document type")
    return root


def _is_element(node: Any) -> bool:
    return isinstance(node.tag, str)


def _check_understood(version: Version, blocks: Sequence[Any]) -> None:
    for block in blocks:
        is_known = etree.QName(block).namespace in (RM, WSA)
        if not is_known and block.get(f"{{{version.namespace}}}mustUnderstand") in ("1", "true"):
            raise SoapFault(f"the header {block.tag[:200]} is not understood", "MustUnderstand")


def _command(content: Sequence[Any]) -> Create | End | None:
    if len(content) != 1 or etree.QName(content[0]).namespace != RM:
        return None
    asked = content[0]
    name = etree.QName(asked).localname
    if name == "CreateSequence":
        acks_to = asked.find(_rm("AcksTo"))
        if acks_to is None:
            raise SoapFault("CreateSequence needs AcksTo", "CreateSequenceRefused")
        expires = asked.find(_rm("Expires"))
        return Create(
            _text(acks_to, "Address", WSA),
            None if expires is None else _seconds(expires.text or ""),
        )
    if name in ("CloseSequence", "TerminateSequence"):
        return End(name.removesuffix("Sequence"), _text(asked, "Identifier"))
    raise SoapFault(f"{name[:100]} is not a request of WS-ReliableMessaging")


def _sequence(block: Any) -> tuple[str, int]:
    identifier, number = _text(block, "Identifier"), _text(block, "MessageNumber")
    if not re.fullmatch(r"[0-9]{1,20}", number, re.ASCII) or number.strip("0") == "":
        raise SoapFault(f"{number[:40]!r} is not the number of a message: 1, 2, 3...")
    if int(number) >= LAST_NUMBER:
        raise SoapFault("the sequence has no number left", "MessageNumberRollover", identifier)
    return identifier, int(number)


def _text(parent: Any, name: str, namespace: str = RM) -> str:
    found = parent.find(f"{{{namespace}}}{name}")
    text = "" if found is None else (found.text or "").strip()
    if not 0 < len(text) <= MOST_TEXT:
        raise SoapFault(
            f"{etree.QName(parent).localname[:100]} needs {name}, of {MOST_TEXT} characters at most"
        )
    return text


_DURATION = re.compile(
    r"P(?:(\d+)Y)?(?:(\d+)M)?(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?", re.ASCII
)
_UNITS = (365 * 86_400, 30 * 86_400, 86_400, 3_600, 60, 1)


def _seconds(text: str) -> float:
    """An `xs:duration` in whole seconds, rounded up: less than one would read as none, which means no end. A
    year counts as 365 days, and a month as 30."""
    found = _DURATION.fullmatch(text.strip()) if len(text) <= 64 else None
    if found is None or not any(found.groups()):
        raise SoapFault(f"{text[:40]!r} is not a duration such as PT1H", "CreateSequenceRefused")
    return math.ceil(
        sum(float(value or 0) * unit for value, unit in zip(found.groups(), _UNITS, strict=True))
    )


def _as_text(element: Any) -> str:
    """An element of the body as a document of its own, without the declarations of the protocol around it.
    Other declarations stay: a text such as `xsd:string` in an attribute may need them."""
    kept = [
        prefix for prefix, uri in element.nsmap.items() if prefix and uri not in _OF_THE_PROTOCOL
    ]
    element.tail = None
    element.getparent().remove(element)
    etree.cleanup_namespaces(element, keep_ns_prefixes=kept)
    return str(etree.tostring(element, encoding="unicode"))


# Writing.


def created(request: Request, identifier: str, expires: float) -> bytes:
    answer = _element("CreateSequenceResponse")
    _add(answer, "Identifier", identifier)
    _add(answer, "Expires", f"PT{int(expires)}S")
    _add(answer, "IncompleteSequenceBehavior", "DiscardFollowingFirstGap")
    return _envelope(request, "CreateSequenceResponse", (), answer)


def ended(request: Request, name: str, acknowledgement: Acknowledgement) -> bytes:
    """`name`: what was asked for, `Close` or `Terminate`."""
    answer = _element(f"{name}SequenceResponse")
    _add(answer, "Identifier", acknowledgement.identifier)
    return _envelope(request, f"{name}SequenceResponse", (acknowledgement,), answer)


def acknowledged(request: Request, acknowledgements: Sequence[Acknowledgement]) -> bytes:
    return _envelope(request, "SequenceAcknowledgement", acknowledgements)


def faulted(request: Request | None, fault: SoapFault) -> tuple[Version, bytes]:
    """A fault, in the version of the request if that is known, else in SOAP 1.1."""
    version = fault.version or SOAP_11 if request is None else request.version
    is_of_rm = fault.code not in ("", "MustUnderstand", "VersionMismatch")
    side = version.sender if fault.by_sender else version.receiver
    code = fault.code if fault.code and not is_of_rm else side
    body = etree.Element(_soap(version, "Fault"), nsmap={"s": version.namespace})
    if version is SOAP_11:
        etree.SubElement(body, "faultcode").text = f"wsrm:{fault.code}" if is_of_rm else f"s:{code}"
        etree.SubElement(body, "faultstring").text = str(fault)
    else:
        coded = etree.SubElement(body, _soap(version, "Code"))
        etree.SubElement(coded, _soap(version, "Value")).text = f"s:{code}"
        if is_of_rm:
            subcode = etree.SubElement(coded, _soap(version, "Subcode"))
            etree.SubElement(subcode, _soap(version, "Value")).text = f"wsrm:{fault.code}"
        reason = etree.SubElement(body, _soap(version, "Reason"))
        text = etree.SubElement(reason, _soap(version, "Text"))
        text.set("{http://www.w3.org/XML/1998/namespace}lang", "en")
        text.text = str(fault)
        if fault.identifier:
            detail = etree.SubElement(body, _soap(version, "Detail"))
            detail.append(_identifier(fault))
    header = []
    if version is SOAP_11 and is_of_rm:
        told = _element("SequenceFault")
        _add(told, "FaultCode", f"wsrm:{fault.code}")
        if fault.identifier:
            _add(told, "Detail").append(_identifier(fault))
        header.append(told)
    action = f"{RM}/fault" if is_of_rm else f"{WSA}/soap/fault"
    return version, _write(version, action, request, header, body)


def _identifier(fault: SoapFault) -> Any:
    found = _element("Identifier")
    found.text = fault.identifier
    return found


def _envelope(
    request: Request, name: str, told: Sequence[Acknowledgement], body: Any = None
) -> bytes:
    header = [_acknowledgement(one) for one in told]
    return _write(request.version, f"{RM}/{name}", request, header, body)


def _write(
    version: Version, action: str, request: Request | None, header: Sequence[Any], body: Any
) -> bytes:
    root = etree.Element(_soap(version, "Envelope"), nsmap={"s": version.namespace, **_PREFIXES})
    head = etree.SubElement(root, _soap(version, "Header"))
    etree.SubElement(head, f"{{{WSA}}}To").text = ANONYMOUS
    etree.SubElement(head, f"{{{WSA}}}Action").text = action
    if request is not None and request.message_id:
        etree.SubElement(head, f"{{{WSA}}}RelatesTo").text = request.message_id
    for block in header:
        head.append(block)
    inside = etree.SubElement(root, _soap(version, "Body"))
    if body is not None:
        inside.append(body)
    return bytes(etree.tostring(root, encoding="UTF-8", xml_declaration=True))


def _acknowledgement(told: Acknowledgement) -> Any:
    block = _element("SequenceAcknowledgement")
    _add(block, "Identifier", told.identifier)
    if told.nacks:
        for number in told.nacks[:MOST_NACKS]:
            _add(block, "Nack", str(number))
        return block
    if told.upto:
        within = _add(block, "AcknowledgementRange")
        within.set("Lower", "1")
        within.set("Upper", str(told.upto))
    else:
        _add(block, "None")
    if told.final:
        _add(block, "Final")
    return block


def _rm(name: str) -> str:
    return f"{{{RM}}}{name}"


def _soap(version: Version, name: str) -> str:
    return f"{{{version.namespace}}}{name}"


def _element(name: str) -> Any:
    return etree.Element(_rm(name), nsmap=_PREFIXES)


def _add(parent: Any, name: str, text: str | None = None) -> Any:
    child = etree.SubElement(parent, _rm(name))
    child.text = text
    return child
