"""`make demo`: exactly-once as a story that is played with real parts, killed twice on the way, and counted by a stranger."""
