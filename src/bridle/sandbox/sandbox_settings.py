"""Settings of the sandbox around commands."""

from typing import Annotated, Literal

import msgspec

from bridle.engine.setting_fields import About, Count, HostList, Wanted, are_covered, at_most, tightening


class SandboxSettings(msgspec.Struct, frozen=True, kw_only=True):
    mode: Annotated[
        Literal["auto", "off", "read-only", "workspace-write"],
        Wanted("a sandbox mode"),
        About(
            "What commands may write.", workspace=tightening("off", "auto", "workspace-write", "read-only")
        ),
    ] = "auto"
    network: Annotated[
        Literal["inherit", "filtered", "deny"],
        Wanted("a network choice"),
        About("Whether commands reach the network.", workspace=tightening("inherit", "filtered", "deny")),
    ] = "inherit"
    hosts: Annotated[
        HostList,
        About('The hosts commands reach while sandbox.network is "filtered".', workspace=are_covered),
    ] = ()
    required: Annotated[
        bool,
        About(
            "Refuse to run commands where nothing can enforce the sandbox.", workspace=tightening(False, True)
        ),
    ] = False
    max_file_mib: Annotated[
        Count, About("The largest file a command may make, in MiB.", workspace=at_most)
    ] = 16_384
    max_processes: Annotated[
        Count, About("How many processes the commands of a session may have together.", workspace=at_most)
    ] = 4_096
    max_memory_mib: Annotated[
        Count,
        About(
            "How much memory they may use together, in MiB; at most nine tenths of it all.", workspace=at_most
        ),
    ] = 1_048_576
    writable: Annotated[tuple[str, ...], About("More folders commands may write to.")] = ()
