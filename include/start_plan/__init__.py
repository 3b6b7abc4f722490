"""What a start would do, per partition: the one function behind the UI, the command line and every start."""
