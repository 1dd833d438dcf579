"""Tables of cases: one test runs all of them and names each that failed."""

from __future__ import annotations

import inspect
import itertools
import traceback
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest

_ROWS = "rows of its table"
_ParameterSet = type(pytest.param())


def table(
    names: str | Sequence[str], rows: Iterable[Any]
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Run a test once for each row, as `pytest.mark.parametrize` does, but as one test that collects all failures.

    Several tables multiply. Parameters that stand in no table are fixtures, and all cases share them: leave a test that
    changes a fixture to `parametrize`.
    """
    columns = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    cases = [_case(columns, row) for row in rows]

    def decorate(test: Callable[..., Any]) -> Callable[..., Any]:
        inner, below = getattr(test, _ROWS, (test, [{}]))
        joined = [{**outer, **case} for outer, case in itertools.product(cases, below)]
        assert joined, f"{test.__name__} has no cases"

        fixtures = [name for name in inspect.signature(inner).parameters if name not in joined[0]]

        if inspect.iscoroutinefunction(inner):

            async def run_async(**shared: Any) -> None:
                failures: list[str] = []
                for case in joined:
                    try:
                        await inner(**shared, **case)
                    except Exception:  # noqa: BLE001  every case runs
                        failures.append(_told(case))
                _raise(failures, len(joined))

            run: Callable[..., Any] = run_async
        else:

            def run_all(**shared: Any) -> None:
                failures: list[str] = []
                for case in joined:
                    try:
                        inner(**shared, **case)
                    except Exception:  # noqa: BLE001  every case runs
                        failures.append(_told(case))
                _raise(failures, len(joined))

            run = run_all
        parameters = [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY) for name in fixtures]
        vars(run)["__signature__"] = inspect.Signature(parameters)
        run.__name__, run.__qualname__, run.__doc__ = inner.__name__, inner.__qualname__, inner.__doc__
        run.__module__ = inner.__module__
        vars(run).update({name: value for name, value in vars(test).items() if name != "__signature__"})
        setattr(run, _ROWS, (inner, joined))
        return run

    return decorate


def _case(columns: Sequence[str], row: Any) -> dict[str, Any]:
    if isinstance(row, _ParameterSet):
        assert not row.marks, "a case with a mark is a test of its own"
        values = tuple(row.values)
    else:
        values = (row,) if len(columns) == 1 else tuple(row)
    return dict(zip(columns, values, strict=True))


def _told(case: dict[str, Any]) -> str:
    return f"{', '.join(f'{name}={value!r}' for name, value in case.items())}\n{traceback.format_exc()}"


def _raise(failures: Sequence[str], number: int) -> None:
    if failures:
        pytest.fail(f"{len(failures)} of {number} cases failed:\n\n" + "\n".join(failures), pytrace=False)
