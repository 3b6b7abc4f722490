"""The shape of every error a person sees: what happened, what state was left, what to do next.

Standard library only: the set-up runs it before anything is installed.
"""


class TidemarkError(Exception):
    """A failure that a person can act on. Its name is the condition; its message always has the three parts."""

    def __init__(self, happened: str, *, state: str, next_step: str) -> None:
        super().__init__(happened, state, next_step)
        self.happened = happened
        self.state = state
        self.next_step = next_step

    def __str__(self) -> str:
        return f"{type(self).__name__}: {self.happened} {self.state} {self.next_step}"
