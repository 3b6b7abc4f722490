"""`python -m include.local_stack`: the commands behind make up, down, status, logs, clean and demo."""

import sys

from include.local_stack.command_line import main

sys.exit(main())
