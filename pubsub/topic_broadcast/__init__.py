"""Topic Reliable Broadcast: every participant of a topic gets every message once, across crashes and partitions.

`broadcast` is the whole as a pure object. Below it: `numbers` and `acknowledgements` (who has received what),
`first_participant` (who sends a message to whom), `garbage` (what everybody has), `held_messages` (what somebody
still lacks), `audience` (multicast), `aside` (best-effort, stubborn, and point to point), `topic_log` (what
must survive a crash) and `messages`.
"""
