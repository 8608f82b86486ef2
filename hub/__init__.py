"""The desktops' WebSocket: who is connected, fan-out, backpressure, close codes (2-desktop §2.1).

Knows neither SQL nor Temporal nor RabbitMQ: `hub/ports.py` names what is passed in.
"""
