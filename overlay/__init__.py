"""Find peers and talk to them: contacts, channels, the DHT and the topic directory."""
