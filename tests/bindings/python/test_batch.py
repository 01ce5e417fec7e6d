"""Batches: memory that is filled in place, copies, and what a call reads of it."""
import array
import unittest

import plait
from support import Life


class Batches(unittest.TestCase):
    def test_map(self):
        """a batch is filled in place, and a copy of the same values trains the same"""
        with Life() as one, Life() as other:
            batch, copied = one.filled(), other.engine.batch()
            view = batch.map("tokens", 4, 33)
            self.assertEqual((view.shape, view.format, view.readonly), ((4, 33), "i", False))
            copied.set("tokens", view.tolist())
            for step in range(3):
                view[step, 5] = step
                copied.set("tokens", view)
                self.assertEqual(one.engine.step(batch).loss, other.engine.step(copied).loss)

    def test_map_is_the_memory(self):
        """two maps of one shape are the same memory, which outlives the batch"""
        with Life() as life:
            batch = life.engine.batch()
            first = batch.map("tokens", 4, 33)
            second = batch.map("tokens", 4, 33)
            first[3, 32] = 77
            self.assertEqual(second[3, 32], 77)
            batch.set("tokens", [[5] * 33] * 4)
            self.assertEqual(first[3, 32], 5)
            batch.close()
            life.engine.free()
            first[0, 0] = 1
            self.assertEqual(second[0, 0], 1)

    def test_shape_changes(self):
        """the shape cannot change below a memoryview"""
        with Life() as life:
            batch = life.engine.batch()
            view = batch.map("tokens", 4, 33)
            source = view.obj
            for change in (lambda: batch.map("tokens", 8, 33), lambda: batch.set("tokens", None),
                           lambda: batch.set("tokens", [[1, 2]])):
                with self.assertRaises(BufferError):
                    change()
            view.release()
            self.assertEqual(batch.map("tokens", 8, 33).shape, (8, 33))
            with self.assertRaises(BufferError):
                memoryview(source)

    def test_numpy(self):
        """NumPy takes the memory as it is"""
        try:
            import numpy
        except ImportError:
            self.skipTest("NumPy is not installed")
        with Life() as life:
            batch = life.engine.batch()
            values = numpy.asarray(batch.map("tokens", 4, 33))
            self.assertEqual((values.dtype, values.shape), (numpy.int32, (4, 33)))
            values[:] = numpy.arange(4 * 33).reshape(4, 33) % 256
            self.assertEqual(batch.map("tokens", 4, 33)[1, 0], 33)
            self.assertEqual(life.engine.step(batch).targets, 128)

    def test_what_is_refused(self):
        """values of another type or shape are refused"""
        with Life() as life:
            batch = life.engine.batch()
            for values in (array.array("f", [1.0]), array.array("i", [1]), b"1234", [[1], [2, 3]],
                           [[]], memoryview(bytes(32)).cast("q", (2, 2))):
                with self.assertRaises((TypeError, ValueError)):
                    batch.set("tokens", values)
            for name, rows in ("tokens", 0), ("tokens", 2**50), ("words", 4):
                with self.assertRaises(plait.PlaitError):
                    batch.map(name, rows, 33)
            batch.set("tokens", [[256] * 33] * 4)
            with self.assertRaises(plait.InvalidArgument) as raised:
                life.engine.step(batch)
            self.assertEqual(raised.exception.word, "token_range")

    def test_targets(self):
        """explicit targets equal those that follow the tokens, and -1 is left out"""
        with Life() as life:
            batch = life.filled()
            loss = life.engine.evaluate(batch).loss
            rows = batch.map("tokens", 4, 33).tolist()
            explicit = life.engine.batch()
            explicit.set("tokens", [row[:-1] for row in rows])
            explicit.set("targets", [row[1:] for row in rows])
            self.assertEqual(life.engine.evaluate(explicit).loss, loss)
            scores = life.engine.score(explicit)
            self.assertAlmostEqual(sum(map(sum, scores.tolist())) / 128, loss, places=5)
            explicit.set("targets", [[-1] * 32] * 4)
            metrics = life.engine.step(explicit)
            self.assertEqual((metrics.skipped, metrics.loss, metrics.targets), (True, 0.0, 0))

    def test_parts_of_a_step(self):
        """forward_backward and optimizer_step are a step"""
        with Life() as one, Life() as other:
            whole = one.engine.step(one.filled())
            batch = other.filled()
            part = other.engine.forward_backward(batch)
            self.assertEqual(part.loss, whole.loss)
            self.assertIsNone(part.step_seconds)
            last = other.engine.optimizer_step()
            self.assertEqual((last.loss, last.grad_norm), (whole.loss, whole.grad_norm))
            self.assertGreater(last.step_seconds, 0)
            self.assertGreater(last.memory_peak_bytes, 0)

    def test_local(self):
        """a local batch holds the rows of the spans"""
        with Life(layout__data=2) as one, Life(layout__data=2) as other:
            spans = one.engine.batch_spans(4)
            whole = other.filled()
            rows = whole.map("tokens", 4, 33).tolist()
            batch = one.engine.batch(plait.Scope.LOCAL)
            batch.set("tokens", [row for first, count in spans
                                 for row in rows[first:first + count]])
            self.assertEqual(batch.rows, 4)
            self.assertEqual(one.engine.step(batch).loss, other.engine.step(whole).loss)
