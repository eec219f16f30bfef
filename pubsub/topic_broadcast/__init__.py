"""Topic Reliable Broadcast: every participant gets every message once, across crashes and partitions.

`broadcast` is the whole as a pure object. Below it: `numbers` and `acknowledgements` (who has received what),
`first_participant` and `check_and_forward` (who sends a message to whom), `collecting` (what everybody
has), `held_messages` (what somebody still lacks), `upkeep` (what is done now and then), `aside`
(best-effort, stubborn, point to point), `delivering` (what the application gets),
`topic_log` and `recovery` (what must survive a crash) and `messages`.
"""
