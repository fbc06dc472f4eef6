"""Alarms: the timers of machines and the wake-ups of applications, each a call when its time has come.

An alarm that is moved to a later time keeps its calendar entry and moves on when that comes: timers that are pushed
back with every frame would otherwise fill the calendar with cancelled entries.
"""

from typing import Any

from resprout.sim.calendar import Action, Calendar
from resprout.sim.nodes import Alarm, Process


class VirtualAlarms:
    def __init__(self, calendar: Calendar) -> None:
        self._calendar = calendar

    def set(self, process: Process, key: Any, at_us: int, call: Action, background: bool = False) -> None:
        """Call `call(process, key)` at a time (at once when it has passed); an equal key replaces the earlier alarm."""
        at_us = max(at_us, self._calendar.now_us)
        alarm = process.alarms.get(key)
        if alarm is not None:
            if alarm.background == background and (alarm.entry_us is None or at_us >= alarm.entry_us):
                alarm.at_us = at_us
                return
            self._kill(alarm)
        alarm = process.alarms[key] = Alarm(process, key, at_us, background, call)
        self._enter(alarm)

    def shift(self, process: Process, by_us: int) -> None:
        """The clock of this process has moved: all its alarms ring so much later, or earlier if that is negative."""
        for alarm in list(process.alarms.values()):
            if by_us >= 0:
                alarm.at_us += by_us
            else:
                self.set(process, alarm.key, alarm.at_us + by_us, alarm.call, alarm.background)

    def cancel(self, process: Process, key: Any) -> None:
        alarm = process.alarms.pop(key, None)
        if alarm is not None:
            self._kill(alarm)

    def cancel_all(self, process: Process) -> None:
        for alarm in process.alarms.values():
            self._kill(alarm)
        process.alarms.clear()

    def _kill(self, alarm: Alarm) -> None:
        alarm.live = False
        if alarm.entry_us is not None and not alarm.background:
            self._calendar.idle += 1  # its entry stays where it is, and no longer means work

    def _enter(self, alarm: Alarm) -> None:
        alarm.entry_us = alarm.at_us
        if alarm.background:
            self._calendar.at_idly(alarm.at_us, self._come, alarm)
        else:
            self._calendar.at(alarm.at_us, self._come, alarm)

    def _come(self, alarm: Alarm, _: None) -> None:
        alarm.entry_us = None
        if not alarm.live and not alarm.background:
            self._calendar.idle -= 1
        self._ring(alarm, None)

    def _ring(self, alarm: Alarm, _: None) -> None:
        if not alarm.live:
            return
        if alarm.at_us > self._calendar.now_us:
            self._enter(alarm)
            return
        process = alarm.process
        if process.step is None:
            process.put_off(self._ring, alarm, None)
            return
        alarm.live = False
        del process.alarms[alarm.key]
        alarm.call(process, alarm.key)
