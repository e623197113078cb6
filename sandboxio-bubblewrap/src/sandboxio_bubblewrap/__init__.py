"""The embedded adapter of sandboxio: namespaces and control groups of this machine, made by bubblewrap."""
