"""The border around commands: what they may write, read and reach, and who holds it.

Is        `confinement`    what a policy means here, as resolved paths (`git_places`, `caches`)
          `adapters`       how an adapter is asked: `bubblewrap`, `landlock`, `unshare`, `sandbox_exec`
          `adapter_choice` which of them holds on this machine, found out by trying, once
          `sandbox_spawn`  starting a process by its policy, and explaining afterwards (`blocked`)
          `policy_check`   what a command made of policy files (`policy_files`, `quarantine`)
          `probe`          a dozen escapes that `bridle sandbox probe` tries (`probe_script`)
          `container`      whether we are in one, which changes nothing here
Is not    what may run at all (shell/, permissions), nor what our own file tools may touch (paths, guards).
"""
