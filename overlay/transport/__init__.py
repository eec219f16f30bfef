"""Datagrams: one endpoint a node, over whatever carries datagrams.

`endpoint` gathers frames into datagrams and hands arriving frames to their layer; `frame` is their form, and
`overlay.session` their protection. `udp` is the only transport; `interface` says what
another one needs.
"""
