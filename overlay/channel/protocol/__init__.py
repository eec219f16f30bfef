"""The channel's protocol without I/O: pure objects that are told the time and asked what to send.

`core` is one end of a channel, `table` those of a node. An end has two halves, `transmitter` (with
`send_buffer`, `flight`, `congestion`, `rtt`) and `receiver` (with `inbox`, `reassembly`, `budget`), and its
times in `patience`; `packet` and `segment` are the bytes.
"""
