"""Observes streams (reads only), decides (pure), acts (the only writer)."""
