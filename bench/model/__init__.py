"""The closed formulas: what the analysis predicts, with nothing run.

One file a subject: messages, memory, reliability, latency, parasite events, the conditions under
which two protocols are equally reliable, and the classical results about epidemics that check them.
A hierarchy is a tuple of communities, from the topic published on up to the root topic.
"""
