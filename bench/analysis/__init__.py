"""An audit of running nodes from their traces: the benchmark's aggregation over what really happened."""
