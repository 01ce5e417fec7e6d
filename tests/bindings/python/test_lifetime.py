"""Handles: in which order, how often, and when they are freed."""
import gc
import itertools
import threading
import time
import unittest
import warnings

import plait
from support import TINY, Life, long_life, resident_bytes


class Lifetime(unittest.TestCase):
    def test_every_order(self):
        """handles are freed in every order"""
        for order in itertools.permutations(range(5)):
            context = plait.Context()
            config = plait.Config(context, TINY)
            group = plait.Group(context, config)
            engine = plait.Engine(group, config)
            handles = [context, config, group, engine, engine.batch()]
            for i in order:
                handles[i].free()
                self.assertFalse(handles[i].is_open)

    def test_children_live_on(self):
        """an engine works on when its parents are freed"""
        with Life() as life:
            life.context.close()
            life.config.close()
            life.group.close()
            self.assertEqual(life.engine.step(life.filled()).step, 1)

    def test_double_close(self):
        """a second close does nothing"""
        with Life() as life:
            batch = life.filled()
            for handle in batch, life.engine, life.group, life.config, life.context:
                handle.close()
                handle.close()
                handle.free()
                with handle:
                    pass

    def test_use_after_close(self):
        """a call on a closed handle raises, whatever the handle"""
        with Life() as life:
            batch, other = life.filled(), life.engine.batch()
            tokenizer = plait.Tokenizer(life.context)
            other.close()
            with self.assertRaisesRegex(plait.InvalidArgument, "bad_handle: the batch was closed"):
                life.engine.step(other)
            with self.assertRaises(plait.InvalidArgument):
                other.map("tokens", 4, 33)
            life.engine.close()
            tokenizer.close()
            life.group.close()
            life.config.close()
            life.context.close()
            for call in (lambda: life.engine.step(batch), lambda: life.engine.state,
                         life.engine.request_stop, life.engine.abort, life.engine.tensors,
                         life.engine.batch, lambda: life.engine.report("memory"),
                         lambda: tokenizer.encode("a"), life.group.card,
                         lambda: life.config["seed"], lambda: plait.Config(life.context),
                         lambda: life.context.drain_log(print)):
                with self.assertRaises(plait.InvalidArgument) as raised:
                    call()
                self.assertEqual(raised.exception.word, "bad_handle")

    def test_failed_constructor(self):
        """a constructor that fails leaves nothing behind"""
        with plait.Context() as context, plait.Config(context, TINY) as config:
            with self.assertRaises(plait.InvalidArgument):
                plait.Group(context, config, rank=2, local_ranks=2, world=3)
            with plait.Group(context, config) as group, plait.Engine(group, config):
                with self.assertRaises(plait.FailedPrecondition):
                    plait.Engine(group, config)

    def test_free_during_step(self):
        """a free during a step ends the step, and the memory goes after it"""
        with long_life() as life:
            batch, caught = life.filled(), []

            def step():
                try:
                    life.engine.step(batch)
                except plait.PlaitError as error:
                    caught.append(error)

            thread = threading.Thread(target=step)
            thread.start()
            while life.engine.state != plait.EngineState.RUNNING:
                time.sleep(0.01)
            with self.assertRaises(plait.FailedPrecondition):
                life.engine.close()
            self.assertTrue(life.engine.is_open)
            life.engine.free()
            thread.join(60)
            self.assertFalse(thread.is_alive())
            self.assertEqual([type(error) for error in caught], [plait.Aborted])

    def test_dropped(self):
        """a dropped engine is freed at once, with a ResourceWarning"""
        with Life() as life, warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            life.stack.pop_all()
            life.engine = None
            gc.collect()
            self.assertEqual([str(warning.message) for warning in seen],
                             ["a plait engine was not closed"])
            with plait.Engine(life.group, life.config) as engine:
                self.assertEqual(engine.state, plait.EngineState.READY)

    def test_cycles(self):
        """1,000 engines, one after another, leave memory as it was"""
        with plait.Context() as context, plait.Config(context, TINY) as config:
            for i in range(1000):
                with plait.Group(context, config) as group, \
                        plait.Engine(group, config) as engine, engine.batch() as batch:
                    batch.map("tokens", 4, 33)
                    if i % 10 == 0:
                        engine.step(batch)
                context.drain_log(lambda record: None)
                if i == 200:
                    before = resident_bytes()
            self.assertLess(resident_bytes() - before, 8 << 20)
