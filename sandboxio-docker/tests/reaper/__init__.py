"""Tests of the reaper."""
