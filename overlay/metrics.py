"""Counters for everything that is sent, received and dropped.

Nothing is dropped in silence: each drop is counted under a reason. Counters are read as a dict or in
the Prometheus text format. A counter is made once and kept by the code that counts, so that counting on a hot
path is one addition.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping

from overlay.errors import UsageError

_NAME = re.compile(r"[a-z][a-z0-9_]*")


class Counter:
    """A number that only grows."""

    __slots__ = ("help", "name", "value")

    def __init__(self, name: str, help: str) -> None:
        self.name = name
        self.help = help
        self.value = 0

    def add(self, amount: int = 1) -> None:
        self.value += amount


class CounterFamily:
    """Counters of one name, told apart by one label, such as the reason of a drop.

    Label values come from this program and never from a peer, so a family cannot be made to grow.
    """

    __slots__ = ("help", "label", "name", "values")

    def __init__(self, name: str, label: str, help: str) -> None:
        self.name = name
        self.label = label
        self.help = help
        self.values: dict[str, int] = {}

    def add(self, label: str, amount: int = 1) -> None:
        self.values[label] = self.values.get(label, 0) + amount

    def __getitem__(self, label: str) -> int:
        return self.values.get(label, 0)

    @property
    def total(self) -> int:
        return sum(self.values.values())


class Metrics:
    """The counters of one node; asking twice for a name gives the same counter."""

    def __init__(self) -> None:
        self._counters: dict[str, Counter] = {}
        self._families: dict[str, CounterFamily] = {}
        self._gauges: dict[str, tuple[str, Callable[[], float]]] = {}

    def counter(self, name: str, help: str) -> Counter:
        self._check_name(name, self._counters)
        return self._counters.setdefault(name, Counter(name, help))

    def family(self, name: str, label: str, help: str) -> CounterFamily:
        self._check_name(name, self._families)
        if not _NAME.fullmatch(label):
            raise UsageError(f"label {label!r} of {name} is not lower-case words joined by _")
        family = self._families.setdefault(name, CounterFamily(name, label, help))
        if family.label != label:
            raise UsageError(f"{name} is told apart by {family.label!r} already, not by {label!r}")
        return family

    def gauge(self, name: str, help: str, read: Callable[[], float]) -> None:
        """Register a value that is read when the metrics are; a second `read` replaces the first."""
        self._check_name(name, self._gauges)
        self._gauges[name] = (help, read)

    def as_dict(self) -> dict[str, float | dict[str, int]]:
        """Every counter and gauge by name; families as a dict by label."""
        result: dict[str, float | dict[str, int]] = {}
        for name, counter in self._counters.items():
            result[name] = counter.value
        for name, family in self._families.items():
            result[name] = dict(sorted(family.values.items()))
        for name, (_, read) in self._gauges.items():
            result[name] = read()
        return dict(sorted(result.items()))

    def prometheus(self) -> str:
        """The Prometheus text format: names begin with `camcast_`, those of counters end in `_total`."""
        lines: list[str] = []
        for counter in self._counters.values():
            name = f"camcast_{counter.name}_total"
            lines += [*_head(name, counter.help, "counter"), f"{name} {counter.value}"]
        for family in self._families.values():
            name = f"camcast_{family.name}_total"
            lines += _head(name, family.help, "counter")
            for label, value in sorted(family.values.items()):
                lines.append(f'{name}{{{family.label}="{_escape(label, quotes=True)}"}} {value}')
        for gauge, (help, read) in self._gauges.items():
            name = f"camcast_{gauge}"
            lines += [*_head(name, help, "gauge"), f"{name} {_number(read())}"]
        return "\n".join(lines) + "\n" if lines else ""

    def _check_name(self, name: str, own: Mapping[str, object]) -> None:
        if not _NAME.fullmatch(name):
            raise UsageError(f"metric {name!r} is not lower-case words joined by _")
        kinds: tuple[Mapping[str, object], ...] = (self._counters, self._families, self._gauges)
        for kind in kinds:
            if kind is not own and name in kind:
                raise UsageError(f"metric {name} exists already, as another kind of metric")


def _head(name: str, help: str, kind: str) -> list[str]:
    return [f"# HELP {name} {_escape(help)}", f"# TYPE {name} {kind}"]


def _escape(text: str, quotes: bool = False) -> str:
    text = text.replace("\\", r"\\").replace("\n", r"\n")
    return text.replace('"', r"\"") if quotes else text


def _number(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return repr(float(value))
