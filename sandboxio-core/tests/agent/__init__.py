"""Tests of the agent; it runs as a process of this machine."""
