"""Options that the file of --config may set too, under the same names; the command line wins."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from overlay.errors import UsageError
from pubsub.config import ConfigurationError, check_type
from pubsub.config_file import check_names, read_settings


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
