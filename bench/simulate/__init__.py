"""The dissemination rule alone, in synchronous rounds, up to tens of millions of processes.

CAMCAST and the three gossip alternatives of the paper, over uniform or SCAMP-built tables, with
crashed processes, weakly consistent views and lossy channels (sections 3.5, 4.2 and 6.1).
"""

from bench.simulate.runs import SIMULATED, compile_kernels, simulate

__all__ = ["SIMULATED", "compile_kernels", "simulate"]
