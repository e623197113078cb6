"""Who is measured: sandboxio, the engine's plain way, the ``docker`` command, and llm-sandbox."""
