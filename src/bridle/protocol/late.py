"""Types of questions, changes and what is shown, loaded when one is first read: most runs ask nothing.

Events and commands name them in annotations, which are looked at only by whoever decodes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bridle.base.line_diff import DiffLine as DiffLine
    from bridle.protocol.display_values import AnyShown as AnyShown
    from bridle.protocol.questions import AnyAnswer as AnyAnswer
    from bridle.protocol.questions import AnyQuestion as AnyQuestion
else:

    def __getattr__(name: str) -> Any:
        if name == "AnyShown":
            from bridle.protocol import display_values

            return display_values.AnyShown
        if name not in ("AnyAnswer", "AnyQuestion", "DiffLine"):
            raise AttributeError(name)
        from bridle.protocol import questions

        return getattr(questions, name)
