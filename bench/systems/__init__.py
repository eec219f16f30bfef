"""What is measured: nodes of this project, plain UDP, and the systems that users would pick instead.

Each system is a module, or a part of one, with a role for a publisher and one for a subscriber (see
`bench.players`). `work` is what all roles have in common: what is to be done, and what is reported.
"""
