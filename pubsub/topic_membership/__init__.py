"""Topic Membership: who takes part in a topic and can be reached, without any agreement protocol.

`membership` is the whole as a pure object. Below it: `roster` (who has subscribed), `matrix` (the states of
all channels between them, with logical timestamps), `stable_views`, `sightings` and `view_watch` (when all in
a partition know the same), `news` and `spreading` (how changed knowledge travels, and nothing else) and
`messages`.
"""
