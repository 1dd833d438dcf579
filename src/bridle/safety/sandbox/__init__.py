"""The border around commands: what they may write, read and reach, and who holds it.

Is        `confinement`  what a policy means here, as resolved paths
          `adapters`     who can enforce it on this machine: bubblewrap, Landlock, unshare, sandbox-exec
          `spawn`        the `Spawn` of the engine: confines, starts, explains
Is not    what may run at all (shell/, permissions), nor what our own file tools may touch (paths, guards).
"""
