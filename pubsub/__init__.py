"""From peers to publish/subscribe: topics, communities and dissemination."""
