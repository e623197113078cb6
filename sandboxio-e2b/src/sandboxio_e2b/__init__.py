"""The E2B adapter of sandboxio."""

from sandboxio_e2b.config import E2BConfig

__all__ = ["E2BConfig"]
