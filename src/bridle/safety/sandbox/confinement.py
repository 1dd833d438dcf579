"""What a policy means on this machine, in resolved paths."""

from __future__ import annotations

from typing import Literal

import msgspec


class Confinement(msgspec.Struct, frozen=True, kw_only=True):
    """What a command may touch. Every adapter enforces as much of it as it can, and says what it cannot.

    Everything that is not named here may be read and not written. All paths are absolute and free of symlinks; of two
    entries where one lies below the other, the deeper one decides.
    """

    writable: tuple[str, ...] = ()
    """Folders and files that are there and may be changed."""
    read_only: tuple[str, ...] = ()
    """Are there, below a writable folder, and may be neither changed nor replaced nor moved away."""
    absent: tuple[str, ...] = ()
    """Are not there, below a writable folder, and must not come to be."""
    held: tuple[str, ...] = ()
    """Writable folders that must keep their place: what is in them may change, they cannot be moved or replaced."""
    hidden: tuple[str, ...] = ()
    """Are there, and nothing of them can be read: credentials, and Bridle's own folders."""
    emptied: tuple[str, ...] = ()
    """Folders that look empty: the sockets of other programs are in them."""
    shown: tuple[str, ...] = ()
    """What stays readable although it lies in one of `hidden` or `emptied`."""
    scratch: str = ""
    """Stands for the temporary folders; empty: a new one for this command."""
    network: Literal["inherit", "deny"] = "inherit"
