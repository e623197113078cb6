"""An adapter of sandboxio over the `docker` command line: the smallest honest one, made to be copied."""
