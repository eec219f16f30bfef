"""Options that several commands share: of the node, of the file of --config, and those that are refused.

An option may also stand in the file of --config under the same name; the command line wins. An option that
would do nothing beside what else a command was told is refused in one sentence, on the command line and in
the file. What the file says of the node itself may be there for other commands, and is passed over where it
means nothing; but not that events are signed.
"""

from __future__ import annotations

import argparse
import socket
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, get_args

from overlay.contact import Address
from overlay.errors import UsageError
from overlay.membership.modes import ModeName
from pubsub.cli import COMMANDS
from pubsub.cli.terminal import LEVELS, LOG_FORMATS, run, say, set_up_logs
from pubsub.config import ConfigurationError, NodeConfig, Preset, check_type
from pubsub.config_file import SETTINGS, check_names, config_from, read_settings, with_assignments
from pubsub.node import Node
from pubsub.status_server import Reporting, StatusServer

NODE_OPTIONS = (
    "listen",
    "advertise",
    "bootstrap",
    "discover",
    "mode",
    "gateway",
    "links",
    "key_file",
    "identity",
    "trace",
    "insecure",
    "signatures",
    "preset",
)
"""Settings of a node that the command line has too."""

_OF_EVENTS = ("durable", "copies", "deadline", "since", "delivery", "where", "order", "last")
_OF_PEERS = ("mode", "gateway", "links", "trace", "signatures", "metrics")


def add_option(parser: argparse.ArgumentParser, *names: str, **how: Any) -> None:
    """An option like argparse's own; `many=True`: a list, for which it may be repeated.

    `needed=True`: the command line or the file has to have it.
    """
    option = parser.add_argument(*names, action=_Option, **how)
    known = parser.get_default("options") or ()
    nodes = parser.get_default("node_settings") or frozenset()
    parser.set_defaults(
        options=(*known, option), given=frozenset(), settings={}, node_settings=nodes
    )


def add_flag(parser: argparse.ArgumentParser, *names: str, **how: Any) -> None:
    add_option(parser, *names, nargs=0, default=False, **how)


def add_list(parser: argparse.ArgumentParser, name: str, **how: Any) -> None:
    """An option with several values after it, which may be repeated too."""
    add_option(parser, name, nargs="+", many=True, default=[], **how)


def with_file(arguments: argparse.Namespace) -> argparse.Namespace:
    """The arguments, and what the command line does not say from the file of --config.

    `given` then also has the options that the file sets to something else than their default, and `settings`
    what it says of the node itself. `UsageError` when an option is needed and neither has it.
    """
    result = argparse.Namespace(**vars(arguments))
    if arguments.config is not None:
        _read_file(arguments, result)
    for option in arguments.options:
        if option.needed and getattr(result, option.dest) == option.default:
            name = max(option.option_strings, key=len)
            raise UsageError(f"{name} is needed, here or in the file of --config: {option.help}")
    return result


def _read_file(arguments: argparse.Namespace, result: argparse.Namespace) -> None:
    settings = read_settings(arguments.config)
    options = {option.dest: option for option in arguments.options}
    check_names(settings, arguments.node_settings | options.keys())
    for name in options.keys() & settings.keys():
        value = _checked(options[name], settings.pop(name))
        if name not in arguments.given:
            setattr(result, name, value)
            result.given |= set() if value == options[name].default else {name}
    result.settings = settings


class _Option(argparse.Action):
    """Notes in `given` that the command line has it: its value may be the default's."""

    def __init__(self, *names: Any, many: bool = False, needed: bool = False, **how: Any) -> None:
        super().__init__(*names, **how)
        self.needed = needed
        self.many = many

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[Any] | None,
        option_string: str | None = None,
    ) -> None:
        value: Any = True if self.nargs == 0 else values
        if self.many:
            before = getattr(namespace, self.dest) if self.dest in namespace.given else []
            value = [*before, *([value] if self.nargs is None else value)]
        namespace.given |= {self.dest}
        setattr(namespace, self.dest, value)


def _checked(option: _Option, value: Any) -> Any:
    """The value of the option in a file, of the type that the command line would give it."""
    name = option.dest
    if option.nargs == 0:
        check_type(name, value, "true or false", (bool,))
    elif option.many:
        check_type(name, value, "a list of texts", (list,))
        for one in value:
            check_type(name, one, "a list of texts", (str,))
    elif option.type is not None:
        check_type(name, value, "a number", (int, float))
        try:
            return option.type(str(value))  # type: ignore[operator]
        except (ValueError, argparse.ArgumentTypeError):
            raise ConfigurationError(f"{name} cannot be {value!r}") from None
    else:
        check_type(name, value, "text", (str,))
    if option.choices is not None and value not in option.choices:
        choices = " or ".join(f'"{choice}"' for choice in option.choices)
        raise ConfigurationError(f"{name} is {choices}, not {value!r}")
    return value


def new_command(
    commands: Any,
    name: str,
    example: str,
    main: Callable[[argparse.Namespace], Coroutine[Any, Any, int]] | None = None,
) -> argparse.ArgumentParser:
    """A sub-command of `camcast`, whose help ends with an example; `main` is what it does."""
    about = COMMANDS[name]
    parser: argparse.ArgumentParser = commands.add_parser(
        name, help=about, description=about, epilog=f"example: {example}"
    )
    if main is not None:
        parser.set_defaults(action=lambda arguments: run(main(with_file(arguments))))
    return parser


def positive(text: str) -> int:
    """The type of an option that is a whole number of 1 or more."""
    if not (text.isascii() and text.isdecimal() and 0 < len(text) <= 18 and int(text) > 0):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of 1 or more")
    return int(text)


def add_node_options(parser: argparse.ArgumentParser, *, only_options: bool = False) -> None:
    """What any command that runs a node takes; all of it may stand in the file of --config too.

    A command that takes `only_options` may have several values after one of them; elsewhere these could not
    be told from the command's own words, and the option is repeated.
    """
    several: dict[str, Any] = (
        {"action": "extend", "nargs": "+"} if only_options else {"action": "append"}
    )
    known = parser.get_default("options") or ()
    given = parser.get_default("given") or frozenset()
    parser.set_defaults(settings={}, node_settings=SETTINGS, options=known, given=given)
    parser.add_argument(
        "--config", metavar="FILE", help="a TOML file with the same names; what is given here wins"
    )
    parser.add_argument("--listen", metavar="HOST:PORT", help="default: 127.0.0.1:0, any free port")
    parser.add_argument("--advertise", metavar="HOST:PORT", help="what others call this node")
    parser.add_argument(
        "--bootstrap",
        metavar="HOST:PORT",
        **several,
        help="a node of the network to join; repeat it for more",
    )
    parser.add_argument(
        "--discover",
        action="store_true",
        default=None,
        help="find nodes on the local network by multicast DNS, and be found",
    )
    parser.add_argument("--mode", choices=get_args(ModeName))
    parser.add_argument(
        "--gateway",
        metavar="TOPIC=HOST:PORT",
        **several,
        help="mode unstructured: a member of the topic that is always there; repeat it for more",
    )
    parser.add_argument("--links", choices=("channel", "datagram"), help="how events travel")
    parser.add_argument("--key-file", metavar="FILE", help="network keys, one a line")
    parser.add_argument("--identity", metavar="FILE", help="this node's key; made if missing")
    parser.add_argument(
        "--trace",
        metavar="FILE",
        help="write a trace, .jsonl or .parquet; in parts with a star (traces/*.jsonl)",
    )
    parser.add_argument("--signatures", action="store_true", default=None, help="sign events")
    parser.add_argument(
        "--preset", choices=get_args(Preset), help="times that suit one machine, a LAN or a WAN"
    )
    parser.add_argument(
        "--set",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        dest="assignments",
        help="any other setting of a node or a layer, such as dht.verify_ids=true; repeat it for more",
    )
    parser.add_argument(
        "--insecure", action="store_true", default=None, help="allow a public address without a key"
    )
    add_log_options(parser)


def add_log_options(parser: argparse.ArgumentParser) -> None:
    add_option(
        parser,
        "--log-format",
        choices=LOG_FORMATS,
        default="text",
        help="how what happens is told on the standard error",
    )
    add_option(
        parser,
        "--log-level",
        choices=LEVELS,
        default="warning",
        help="the least that is told (default: warning)",
    )


def node_config(arguments: argparse.Namespace) -> NodeConfig:
    """The configuration file's settings, and over them those of the command line; logs go out from here
    on."""
    set_up_logs(arguments)
    settings = with_assignments(arguments.settings, arguments.assignments)
    for name in NODE_OPTIONS:
        value = getattr(arguments, name)
        if value is not None:
            settings[name] = value
            if name == "gateway":
                settings.pop("gateways", None)
    if "listen" not in settings and (listen := _towards(settings.get("bootstrap"))) is not None:
        settings["listen"] = listen
    return config_from(settings)


def _towards(bootstrap: object) -> str | None:
    """This host's address on the way to the bootstrap nodes, if they are all on other hosts: a command that
    was not told where to listen would reach none of them from loopback."""
    listen = None
    for text in bootstrap if isinstance(bootstrap, list | tuple) else ():
        try:
            address = Address.parse(text)
            if address.is_loopback:
                return None
            kind = socket.AF_INET6 if ":" in address.host else socket.AF_INET
            with socket.socket(kind, socket.SOCK_DGRAM) as one:
                one.connect(address)  # sends nothing
                listen = listen or str(Address(one.getsockname()[0], 0))
        except (UsageError, OSError, TypeError, AttributeError):  # is told where it is used
            continue
    return listen


def make_node(arguments: argparse.Namespace) -> Node:
    return Node.from_config(node_config(arguments))


def check_via(arguments: argparse.Namespace) -> None:
    """`UsageError` for an option that the way to the subscribers, `--via`, knows nothing of."""
    if arguments.via != "distributors":
        refuse(arguments, ("no_gap", "distributors", "group"), "goes with --via distributors")
        return
    why = "goes with --via overlay: distributors do not offer it"
    refuse(arguments, (*_OF_EVENTS, *_OF_PEERS), why)
    if arguments.distributors:
        why = "does not go with --distributors, which says where they are"
        refuse(arguments, ("bootstrap", "group"), why)


def check_durable(arguments: argparse.Namespace) -> None:
    """`UsageError` for an option that does nothing with an archive, or nothing without one."""
    if arguments.durable is None or arguments.durable is False:
        refuse(arguments, ("copies", "deadline"), "goes with --durable")
        refuse(arguments, ("since", "delivery", "where"), "goes with --durable NAME")
        return
    refuse(arguments, ("order",), "does not go with --durable: see --delivery")
    refuse(arguments, ("last",), "does not go with --durable: see --since")
    refuse(arguments, ("receivers",), "does not go with --durable: it ends when an archive has it")


def refuse(arguments: argparse.Namespace, names: Iterable[str], why: str) -> None:
    """`UsageError` for the first of these options that was given."""
    given = set(arguments.given)
    given |= {name for name in NODE_OPTIONS if getattr(arguments, name, None) is not None}
    given |= {"signatures"} if arguments.settings.get("signatures") is True else set()
    for name in names:
        if name in given:
            raise UsageError(f"--{name.replace('_', '-')} {why}")


def add_tls_option(parser: argparse.ArgumentParser, served: str) -> None:
    add_option(
        parser,
        "--tls",
        metavar="FILE",
        nargs=2,
        many=True,
        default=[],
        help=f"a certificate and its key, in PEM: {served} over TLS",
    )


def add_metrics_option(parser: argparse.ArgumentParser) -> None:
    add_option(
        parser,
        "--metrics",
        metavar="HOST:PORT",
        help="serve /metrics (Prometheus), /health and /status (JSON)",
    )


def metrics_address(arguments: argparse.Namespace) -> Address | None:
    """Where to serve them; asked before anything runs, for it may be no address."""
    return address_of(arguments, "metrics")


def address_of(arguments: argparse.Namespace, name: str) -> Address | None:
    """The address that an option has, if any; one that is none is told with the name of the option."""
    text = getattr(arguments, name)
    try:
        return None if text is None else Address.parse(text)
    except UsageError as error:
        raise UsageError(f"--{name}: {error}") from None


@asynccontextmanager
async def running_node(arguments: argparse.Namespace) -> AsyncIterator[Node]:
    """The node of a command that has --metrics, and what it says of itself served there."""
    at = metrics_address(arguments)
    async with make_node(arguments) as node, AsyncExitStack() as stack:
        await serve_status(arguments, node, at, stack)
        yield node


async def serve_status(
    arguments: argparse.Namespace, process: Reporting, at: Address | None, stack: AsyncExitStack
) -> None:
    """Serve what the process says of itself until the stack ends, and say where; not at all at None."""
    if at is not None:
        server = await stack.enter_async_context(StatusServer(process, at))
        url = f"http://{server.address}/status"
        say(arguments, f"status on {url}", status=url)
