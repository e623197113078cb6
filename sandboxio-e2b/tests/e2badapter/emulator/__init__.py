"""An emulator of E2B: its control API, envd and code server, over the wire, for the real SDK.

It knows nothing of sandboxio. What the provider would reject it rejects, what the provider leaves open stays open. Shapes and
behaviour are those of the SDK 2.63 (2026-11) and of the server's published source (2026-08).
"""
