"""Generated secrets, and files that nobody but their owner can read, from their first byte on. Standard library only."""

import base64
import os
import secrets
from pathlib import Path


def new_secret() -> str:
    """The form of a Fernet key; of its characters only '=', which ends it, is special in a URL or an .env file."""
    return base64.urlsafe_b64encode(secrets.token_bytes(32)).decode()


def write_for_owner_alone(file: Path, text: str) -> None:
    """Never over an existing file: raises FileExistsError."""
    with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as target:
        target.write(text)
