"""The protocols of durable delivery as pure objects: publisher's side, archive's side, subscriber's side,
and what replicas of an archive tell each other. None of them relies on the links: messages may be lost,
repeated or overtaken. `pubsub.archive` runs them on a node."""
