"""`python -m bench.distributors`: one distributor with thousands of subscribers, then without it."""

from __future__ import annotations

import argparse

from bench.distributors.measure import Setting, measure
from bench.distributors.memory import bytes_each_channel, bytes_each_subscriber


def show_memory(count: int) -> None:
    print(f"a subscriber   {bytes_each_subscriber(count):>8,.0f} bytes")
    print(f"a channel      {bytes_each_channel(count):>8,.0f} bytes, if it had one")


def main() -> None:
    default = Setting()
    parser = argparse.ArgumentParser(prog="python -m bench.distributors", description=__doc__)
    for name in ("subscribers", "crowds", "events", "size", "datagram", "secondaries"):
        parser.add_argument(f"--{name}", type=int, default=getattr(default, name))
    parser.add_argument("--memory", action="store_true", help="count memory only, in one process")
    arguments = vars(parser.parse_args())
    if arguments.pop("memory"):
        show_memory(arguments["subscribers"])
        return
    setting = Setting(**arguments)
    figures = measure(setting)
    deliveries = figures.events_per_second * setting.subscribers
    print(f"subscribers of one distributor   {figures.subscribed:>10,}")
    print(f"memory for each                  {figures.bytes_each:>10,.0f} bytes")
    print(f"events delivered                 {figures.arrived:>10,}")
    print(f"events a second, to all          {figures.events_per_second:>10,.1f}")
    print(f"deliveries a second              {deliveries:>10,.0f}")
    print(f"distributor's CPU a delivery     {figures.distributor_cpu:>10.2f} microseconds")
    print(f"datagrams sent                   {figures.datagrams:>10,}")
    print(f"moved after it was killed        {figures.moved:>10,}")
    print(f"half of them after               {figures.moved_median:>10.2f} s")
    print(f"all of them after                {figures.moved_all:>10.2f} s")


if __name__ == "__main__":
    main()
