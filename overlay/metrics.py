"""Counters for everything that is sent, received and dropped.

Nothing is dropped in silence: each drop is counted under a reason. Counters are read as a dict or in
the Prometheus text format. A counter is made once and kept by whoever counts, so that counting on a hot
path is one addition.
"""

from __future__ import annotations

from collections.abc import Callable


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
        return self._counters.setdefault(name, Counter(name, help))

    def family(self, name: str, label: str, help: str) -> CounterFamily:
        return self._families.setdefault(name, CounterFamily(name, label, help))

    def gauge(self, name: str, help: str, read: Callable[[], float]) -> None:
        """Register a value that is read when the metrics are; a second `read` replaces the first."""
        self._gauges[name] = (help, read)

    def as_dict(self) -> dict[str, float | dict[str, int]]:
        """Every counter and gauge by name; families as a dict by label."""
        result: dict[str, float | dict[str, int]] = {}
        for name, counter in self._counters.items():
            result[name] = counter.value
        for name, family in self._families.items():
            result[name] = dict(family.values)
        for name, (_, read) in self._gauges.items():
            result[name] = read()
        return dict(sorted(result.items()))

    def prometheus(self) -> str:
        """The Prometheus text format, each name prefixed with `camcast_`."""
        lines: list[str] = []
        for counter in self._counters.values():
            lines += _head(counter.name, counter.help, "counter")
            lines.append(f"camcast_{counter.name} {counter.value}")
        for family in self._families.values():
            lines += _head(family.name, family.help, "counter")
            for label, value in sorted(family.values.items()):
                lines.append(f'camcast_{family.name}{{{family.label}="{label}"}} {value}')
        for name, (help, read) in self._gauges.items():
            lines += _head(name, help, "gauge")
            lines.append(f"camcast_{name} {read():g}")
        return "\n".join(lines) + "\n" if lines else ""


def _head(name: str, help: str, kind: str) -> list[str]:
    return [f"# HELP camcast_{name} {help}", f"# TYPE camcast_{name} {kind}"]
