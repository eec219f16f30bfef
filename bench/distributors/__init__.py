"""One distributor with thousands of light subscribers on real UDP: speed, memory, time to fail over."""
