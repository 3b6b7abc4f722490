"""Runbooks: one file per act of the person on call."""
