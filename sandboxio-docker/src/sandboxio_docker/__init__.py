"""The Docker adapter of sandboxio."""
