"""The channel's protocol without I/O: pure objects that are told the time and asked what to send.

`core` is one end of a channel, `table` those of a node. Its halves are `transmitter` (with `send_buffer`,
`flight`, `congestion`, `rtt`) and `receiver` (with `inbox`, `reassembly`, `budget`); `packet` and `segment`
are the bytes.
"""
