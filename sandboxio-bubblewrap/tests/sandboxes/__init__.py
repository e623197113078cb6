"""Tests of the bubblewrap adapter."""
