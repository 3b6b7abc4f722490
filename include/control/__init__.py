"""The control database: desired state, launches, generations, progress, ledger copy, journal, incidents."""
