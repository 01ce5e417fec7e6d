"""Numbers, texts and errors on their way through the border."""
import os
import pickle
import tempfile
import threading
import unittest

import plait
from plait import _plait
from support import TINY, Life

EMOJI = "naïve 😀🏳️‍🌈 漢字"


class Values(unittest.TestCase):
    def test_integers(self):
        """integers of 64 bits come back as they went"""
        for value in 2**31, 2**32 + 5, 2**40, 2**53 + 1, 2**63 - 1, -2**63, 0, -1:
            self.assertEqual(_plait.x_echo(value, 0.0, "", b"")[0], value)
        with self.assertRaises(OverflowError):
            _plait.x_echo(2**63, 0.0, "", b"")

    def test_echo(self):
        """reals, text beyond the BMP and bytes come back as they went"""
        for real in 0.1, -0.0, 5e-324, float("inf"):
            self.assertEqual(repr(_plait.x_echo(0, real, "", b"")[1]), repr(real))
        data = bytes(range(256)) * 300
        self.assertEqual(_plait.x_echo(0, 0.0, EMOJI, data)[2:], (EMOJI, data))
        self.assertEqual(_plait.x_echo(0, 0.0, "", memoryview(data)[1:7])[3], data[1:7])

    def test_text_is_checked(self):
        """text that C cannot take is refused before the call"""
        with plait.Context() as context, plait.Config(context) as config:
            with self.assertRaisesRegex(ValueError, "null character"):
                config["run.checkpoint"] = "a\0b"
            with self.assertRaises(UnicodeEncodeError):
                config["run.checkpoint"] = "\ud800"
            with self.assertRaises(TypeError):
                _plait.config_set(config._native, 3, "x")
            with self.assertRaises(TypeError):
                _plait.config_get(context._native, "seed")

    def test_emoji(self):
        """emoji in a value and in a path"""
        with Life() as life, tempfile.TemporaryDirectory() as directory:
            life.config["run.checkpoint"] = EMOJI
            self.assertEqual(life.config["run.checkpoint"], EMOJI)
            self.assertEqual(life.config.dump()["run.checkpoint"], EMOJI)
            root = os.path.join(directory, EMOJI)
            life.engine.set_property("note", EMOJI)
            with life.engine.save(root) as operation:
                self.assertTrue(operation.wait()["path"].startswith(root))
            self.assertEqual(os.listdir(directory), [EMOJI])
            with plait.Checkpoint(life.context, root) as checkpoint:
                self.assertEqual(checkpoint[-1].value, EMOJI)

    def test_config(self):
        """a configuration takes Python's values, merges mappings and lists its keys"""
        with plait.Context() as context, plait.Config(context, TINY) as config:
            config["layout.scatter_gather"] = False
            config["optimizer.lr"] = 0.25
            config["data.train"] = ["a.bin", "b.bin"]
            self.assertEqual(config["layout.scatter_gather"], "false")
            self.assertEqual(float(config["optimizer.lr"]), 0.25)
            self.assertEqual(config.dump()["model.hidden"], 32)
            table = {info.key: info for info in config.key_table()}
            self.assertEqual(list(table), list(dict(config)))
            self.assertIn("gpt2", table["model.family"].choices)
            self.assertEqual(table["run.steps"].flags & plait.KeyFlags.HOST,
                             plait.KeyFlags.HOST)
            del config["optimizer.lr"]
            self.assertEqual(float(config["optimizer.lr"]),
                             float(table["optimizer.lr"].default_value))
            config.check()
            config["model.heads"] = 5
            with self.assertRaises(plait.InvalidArgument):
                config.check()

    def test_plan(self):
        """candidates, ranks, reports and keys of a plan"""
        with plait.Context() as context, plait.Config(context, TINY) as config:
            with plait.Plan(context, config, 1) as plan:
                self.assertEqual((plan[0].tensor, plan[-1].pipeline), (1, 1))
                self.assertGreater(plan.rank(0, 0).weight_bytes, 0)
                self.assertTrue(plan.report(0, "memory"))
                plan.apply(0, config)
                with self.assertRaises(IndexError):
                    plan[len(plan)]


class Errors(unittest.TestCase):
    def test_parts(self):
        """an error has code, word, message, rank, disposition and details, also when pickled"""
        with plait.Context() as context, plait.Config(context) as config:
            with self.assertRaises(plait.InvalidArgument) as raised:
                config["model.laers"] = 3
        for error in raised.exception, pickle.loads(pickle.dumps(raised.exception)):
            self.assertIsInstance(error, ValueError)
            self.assertEqual(error.code, plait.Code.INVALID_ARGUMENT)
            self.assertEqual(error.word, "argument")
            self.assertEqual(error.details["nearest"], "model.layers")
            self.assertEqual(error.disposition, plait.Disposition.UNCHANGED)
            self.assertEqual((error.rank, error.host_code), (None, 0))
            self.assertEqual(str(error), "INVALID_ARGUMENT: " + error.message)

    def test_rank(self):
        """an error that began on a rank names it"""
        with Life() as life:
            batch = life.filled()
            entry = life.engine.tensors()[0]
            weights = life.engine.read_tensor(entry).cast("B").cast("f")
            weights[0] = float("nan")
            life.engine.write_tensor(entry, weights)
            with self.assertRaises(plait.OutOfRange) as raised:
                for _ in range(8):
                    life.engine.step(batch)
            self.assertEqual(raised.exception.word, "nonfinite_loss")
            self.assertEqual(raised.exception.rank, 0)

    def test_version(self):
        """a library of another version refuses before any handle exists"""
        with self.assertRaises(plait.FailedPrecondition) as raised:
            _plait.context_create(_plait.PLAIT_API_VERSION + 7_000_000)
        self.assertEqual(raised.exception.word, "version_mismatch")
        self.assertIn("library", raised.exception.details)

    def test_unknown_numbers(self):
        """numbers of a newer library are kept"""
        error = plait.PlaitError(99, "novel", "novel: it is new", "", "{}", 3, 9)
        self.assertEqual((int(error.code), int(error.disposition), error.rank), (99, 9, 3))
        self.assertEqual(str(error), "UNKNOWN: novel: it is new")

    def test_threads(self):
        """8 threads with 10,000 different failures each read their own"""
        wrong = []

        def fail(thread):
            for i in range(10000):
                kind = f"kind {thread}.{i}"
                try:
                    plait.Tokenizer(context, kind)
                    wrong.append(kind)
                except plait.InvalidArgument as error:
                    if error.details["got"] != kind or kind not in error.message:
                        wrong.append(str(error))

        with plait.Context() as context:
            threads = [threading.Thread(target=fail, args=(n,)) for n in range(8)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        self.assertEqual(wrong, [])
