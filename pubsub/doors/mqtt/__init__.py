"""A door for MQTT clients: MQTT 3.1.1 and 5.0 over TCP, TLS and WebSocket, on a node."""

from pubsub.doors.mqtt.authentication import Answer, Authenticator, Exchange, Scram, ScramSecret
from pubsub.doors.mqtt.message import MqttMessage, message_in
from pubsub.doors.mqtt.network import Access, MqttConfig
from pubsub.doors.mqtt.server import MqttDoor

__all__ = [
    "Access",
    "Answer",
    "Authenticator",
    "Exchange",
    "MqttConfig",
    "MqttDoor",
    "MqttMessage",
    "Scram",
    "ScramSecret",
    "message_in",
]
