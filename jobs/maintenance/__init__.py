"""Keeps Delta tables small and quick beside live streams (P4, maintain): few files, narrow key ranges, old deletes gone."""
