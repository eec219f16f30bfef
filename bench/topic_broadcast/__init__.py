"""`camcast bench topics`: throughput of topic broadcast against participants, and what the matrix costs.

`throughput` publishes as fast as it can and counts; `virtual_run` does it on the virtual network,
`socket_run` over real UDP; `matrix_cost` measures topic membership alone; `figure` draws, `command` prints.
"""
