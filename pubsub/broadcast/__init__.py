"""Broadcast to a group whose members are known: small protocols, composed into a stack.

`kernel` is how layers make a stack; `links`, `best_effort`, `perfect_detector`, `lazy_reliable`,
`uniform`, `indulgent`, `recoverable`, `probabilistic`, `fifo_order` and `causal_order` are one layer
each; `stacks` names the usual ones. `pubsub.group` runs a stack over UDP.
"""
