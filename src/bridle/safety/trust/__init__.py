"""What of a workspace a person has agreed to, by content, remembered outside every workspace.

Owns      the lock file and its text, the store of approvals, what a program launch consists of, what is asked.
Start at  `approvals.py`.
Is not    a permission: trust lets a file be loaded, rules and answers let a call act.
"""

from __future__ import annotations

from bridle.safety.trust.approvals import Approvals

__all__ = ["Approvals"]
