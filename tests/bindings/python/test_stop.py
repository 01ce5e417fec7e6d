"""Stops and aborts, from other threads and by signals."""
import os
import signal
import threading
import time
import unittest

import plait
from support import Life, long_life


def when_running(engine, *actions):
    """A thread that does `actions`, a moment apart, once a call of the engine runs."""

    def act():
        while engine.state != plait.EngineState.RUNNING:
            time.sleep(0.01)
        for i, action in enumerate(actions):
            time.sleep(0.1 if i > 0 else 0)
            action()

    thread = threading.Thread(target=act)
    thread.start()
    return thread


def interrupt():
    os.kill(os.getpid(), signal.SIGINT)


class Stop(unittest.TestCase):
    def test_stop_from_second_thread(self):
        """a stop from a second thread ends the loop after a step, and training may go on"""
        with Life() as life:
            batch = life.filled()
            thread = threading.Timer(0.05, life.engine.request_stop)
            thread.start()
            steps = 0
            while not isinstance(result := life.engine.step(batch), plait.Stopped):
                steps += 1
            thread.join()
            self.assertEqual(result.metrics.step, steps + 1)
            self.assertEqual(life.engine.step(batch).step, steps + 2)

    def test_stop_without_effect(self):
        """evaluate, score, generate and load stop without a result"""
        with Life() as life:
            batch = life.filled()
            for call in (lambda: life.engine.evaluate(batch), lambda: life.engine.score(batch),
                         lambda: life.engine.generate([1, 2], 4)):
                life.engine.request_stop()
                self.assertEqual(call(), plait.Stopped(None))
                self.assertNotEqual(call(), plait.Stopped(None))

    def test_abort_from_third_thread(self):
        """an abort from a third thread ends a step at once, in spite of a stop from a second"""
        with long_life() as life:
            batch = life.filled()
            stop = when_running(life.engine, life.engine.request_stop)
            abort = when_running(life.engine, life.engine.abort)
            begin = time.monotonic()
            with self.assertRaises(plait.Aborted) as raised:
                life.engine.step(batch)
            self.assertLess(time.monotonic() - begin, 10)
            stop.join()
            abort.join()
            self.assertEqual(raised.exception.disposition, plait.Disposition.ENGINE_LOST)
            self.assertEqual(life.engine.state, plait.EngineState.LOST)
            self.assertTrue(life.engine.report("operations"))
            life.engine.free()
            with plait.Group(life.context, life.config) as group, \
                    plait.Engine(group, life.config) as engine:
                self.assertEqual(engine.state, plait.EngineState.READY)

    def test_signal_stops(self):
        """Ctrl-C during a step stops that very step, and nothing is raised"""
        with Life(train__global_batch=2000) as life:
            batch = life.filled()
            with life.engine.stop_on_signals() as signals:
                thread = when_running(life.engine, interrupt)
                result = life.engine.step(batch)
                thread.join()
            self.assertIsInstance(result, plait.Stopped)
            self.assertEqual((result.metrics.step, signals.received), (1, [signal.SIGINT]))
            self.assertIs(signal.getsignal(signal.SIGINT), signal.default_int_handler)
            self.assertEqual(signal.set_wakeup_fd(-1), -1)

    def test_signal_that_cannot_be_handled(self):
        """a signal that nobody can handle is refused, and signals are as they were"""
        with Life() as life:
            with self.assertRaises(OSError):
                with life.engine.stop_on_signals(signal.SIGINT, signal.SIGKILL):
                    pass
            self.assertIs(signal.getsignal(signal.SIGINT), signal.default_int_handler)
            self.assertEqual(signal.set_wakeup_fd(-1), -1)

    def test_second_signal_aborts(self):
        """a second Ctrl-C during a long step is a KeyboardInterrupt within moments"""
        with long_life() as life:
            batch = life.filled()
            begin = time.monotonic()
            with self.assertRaises(KeyboardInterrupt) as raised:
                with life.engine.stop_on_signals():
                    thread = when_running(life.engine, interrupt, interrupt)
                    life.engine.step(batch)
            thread.join()
            self.assertLess(time.monotonic() - begin, 10)
            self.assertIsInstance(raised.exception.__cause__, plait.Aborted)
            self.assertIs(signal.getsignal(signal.SIGINT), signal.default_int_handler)

    def test_plain_interrupt(self):
        """without anything, Ctrl-C is a KeyboardInterrupt after the step"""
        with Life(train__global_batch=500) as life:
            batch = life.filled()
            thread = when_running(life.engine, interrupt)
            with self.assertRaises(KeyboardInterrupt):
                while True:
                    life.engine.step(batch)
            thread.join()
            self.assertEqual(life.engine.state, plait.EngineState.READY)

    def test_group_wait(self):
        """Ctrl-C ends a wait for other processes"""
        with Life() as life, plait.Group(life.context, life.config, 0, 1, 2) as group:
            timer = threading.Timer(0.2, interrupt)
            timer.start()
            with self.assertRaises(KeyboardInterrupt) as raised:
                with group.abort_on_signals():
                    group.join_tcp("localhost:0", timeout=30)
            timer.join()
            self.assertIsInstance(raised.exception.__cause__, plait.Aborted)

    def test_timeout(self):
        """a timeout is in seconds, and neither negative nor 0 where nothing can be polled"""
        with Life() as life:
            batch = life.filled()
            self.assertEqual(life.engine.step(batch, timeout=30).step, 1)
            with self.assertRaises(ValueError):
                life.engine.step(batch, timeout=-1)
            with self.assertRaises(plait.InvalidArgument):
                life.engine.step(batch, timeout=0)
