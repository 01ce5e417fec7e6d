"""Log records, drained into handlers."""
import json
import logging
import os
import tempfile
import time
import unittest

import plait
from support import resident_bytes

RING = 4096
NOISE = 4000  # warnings of one call


class Log(unittest.TestCase):
    def setUp(self):
        self.context = plait.Context()
        self.config = plait.Config(self.context)
        self.directory = tempfile.TemporaryDirectory()
        known = {"model_type": "gpt2", "n_layer": 2, "n_head": 2, "n_embd": 32,
                 "n_positions": 32, "vocab_size": 256}
        noise = {f"novel_{i}": i for i in range(NOISE)}
        with open(os.path.join(self.directory.name, "config.json"), "w") as file:
            json.dump({**known, **noise}, file)

    def tearDown(self):
        self.directory.cleanup()
        self.config.close()
        self.context.close()

    def make_noise(self):
        """A warning for each key that the library does not know."""
        self.config.load_hf(self.directory.name)

    def test_records(self):
        """a record has time, level, rank, subsystem and message"""
        self.make_noise()
        records = []
        self.assertEqual(self.context.drain_log(records.append, max_records=10), 10)
        self.assertEqual(self.context.drain_log(records.append), NOISE - 10)
        self.assertEqual(self.context.drain_log(records.append), 0)
        self.assertEqual(len(records), NOISE)
        self.assertTrue(all(record.level == plait.LogLevel.WARNING for record in records))
        self.assertLess(abs(time.time() - records[0].time), 60)
        self.assertEqual((records[0].rank, records[0].subsystem), (-1, "checkpoint"))
        self.assertEqual(len({record.message for record in records}), NOISE)

    def test_level(self):
        """records above the level are dropped where they arise"""
        self.context.set_log_level(plait.LogLevel.ERROR)
        self.make_noise()
        self.assertEqual(self.context.drain_log(print), 0)

    def test_overflow(self):
        """what the ring lost is counted"""
        self.make_noise()
        self.make_noise()
        records = []
        self.context.drain_log(records.append)
        self.assertEqual(records[0].dropped, 2 * NOISE - RING)
        self.assertEqual([record.dropped for record in records[1:]], [0] * RING)

    def test_logging(self):
        """records go to Python's own logging"""
        self.make_noise()
        with self.assertLogs("host", logging.WARNING) as seen:
            self.context.drain_log(plait.log_to("host"), max_records=3)
        self.assertEqual(len(seen.output), 3)
        self.assertRegex(seen.output[0], r"\AWARNING:host:checkpoint: .*unknown key.*novel_")

    def test_million(self):
        """a handler is called 1,000,000 times and throws at last: memory is flat, nothing is lost"""
        count, before = 0, 0

        def handle(record):
            nonlocal count, before
            count += 1
            if count == 100000:
                before = resident_bytes()
            if count == 1000000:
                raise ArithmeticError(record.message)

        with self.assertRaises(ArithmeticError):
            while True:
                self.make_noise()
                self.context.drain_log(handle)
        self.assertEqual(count, 1000000)
        self.assertLess(resident_bytes() - before, 8 << 20)
        rest = self.context.drain_log(lambda record: self.make_noise(), max_records=NOISE)
        self.assertEqual((count + rest) % NOISE, 0)
