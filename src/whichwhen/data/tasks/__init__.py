"""Tasks whose best acquisition is known in closed form or by enumeration."""

from whichwhen.data.tasks.base import ChainTask, Task
from whichwhen.data.tasks.bursts import BurstTask
from whichwhen.data.tasks.enumerable import EnumerableTask
from whichwhen.data.tasks.planning import PlanningTask
from whichwhen.data.tasks.pointer import PointerTask
from whichwhen.data.tasks.signal import SignalTask
from whichwhen.data.tasks.triage import TriageTask

__all__ = ["BurstTask", "ChainTask", "EnumerableTask", "PlanningTask", "PointerTask", "SignalTask", "Task", "TriageTask"]
