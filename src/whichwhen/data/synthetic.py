"""The synthetic tasks by name."""

from __future__ import annotations

from whichwhen.data.tasks import BurstTask, EnumerableTask, PlanningTask, PointerTask, SignalTask, Task, TriageTask
from whichwhen.errors import DataError

__all__ = ["TASKS", "SignalTask", "find_task"]

TASKS: dict[str, Task] = {
    "fixed": SignalTask(stride=0, about="one of 10 features carries the label, always the same"),
    "moving": SignalTask(stride=3, about="one of 10 features carries the label, another one at each step"),
    "nearby": SignalTask(stride=3, until=9, about="as moving, but over after 9 of 12 steps"),
    "travel": SignalTask(
        stride=3, until=9, turnaround=3, about="as nearby, with results that take 3 steps: requests must be placed ahead"
    ),
    "bursts": BurstTask(),
    "pointer": PointerTask(),
    "triage": TriageTask(),
    "planning": PlanningTask(),
    "exact": EnumerableTask(),
}


def find_task(name: str) -> Task:
    """A task by the part of its name after ``synthetic:``."""
    if name not in TASKS:
        raise DataError(f"unknown synthetic task {name!r}", expected=" or ".join(f"synthetic:{task}" for task in TASKS))
    return TASKS[name]
