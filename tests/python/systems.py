"""Systems that several tests describe, with times that can be worked out by hand."""

from __future__ import annotations


def plain_switch(hosts: int, channel: str) -> str:
    """One switch: packets of 125 B that carry 100 B take 1 us, cables 20 ns each, the switch 10 ns.

    So the way of a packet is 1.05 us.
    """
    return f"""\
[system]
title = "A plain crossbar"
hosts = {hosts}

[channel.{channel}]
packet = "125 B"
payload = "100 B"
link = {{ rate = "1 Gbit/s", length = "4 m", delay_per_metre = "5 ns" }}
adapter.send_buffers = "unlimited"
switch.crossbar = {{ latency = "10 ns", contention = "back_pressure" }}
"""
