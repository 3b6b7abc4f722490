"""Detached processes: started in a Unix session of their own, told from strangers with their pid, stopped as a session."""
