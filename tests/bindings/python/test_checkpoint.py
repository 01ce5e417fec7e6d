"""Tensors, checkpoints and operations, beside what C reads."""
import hashlib
import json
import os
import tempfile
import unittest

import plait
from support import CCheckpoint, Life


def entry_line(entry):
    """As CCheckpoint.entries writes it."""
    return json.dumps([entry.name, int(entry.kind), int(entry.dtype), list(entry.shape),
                       entry.elements, entry.digest, entry.value])


class Checkpoints(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.root = os.path.join(directory.name, "steps")

    def test_weights(self):
        """all weights are read, changed, written and read again: the bytes that C reads"""
        with Life() as life:
            engine = life.engine
            engine.step(life.filled())
            weights = [entry for entry in engine.tensors() if entry.kind == plait.Kind.PARAM]
            self.assertGreater(len(weights), 20)
            expected = {}
            for entry in weights:
                values = engine.read_tensor(entry)
                self.assertEqual((values.shape, values.format), (entry.shape, "f"))
                flat = values.cast("B").cast("f")
                for i in range(len(flat)):
                    flat[i] += 0.5 + i % 7
                engine.write_tensor(entry, values)
                expected[entry.name] = bytes(values)
            for entry in weights:
                again = bytearray(entry.elements * 4)
                engine.read_tensor(entry, into=again)
                self.assertEqual(bytes(again), expected[entry.name])
            with engine.save(self.root) as operation:
                operation.wait()
            seen_by_c = CCheckpoint(self.root)
            with plait.Checkpoint(life.context, self.root) as checkpoint:
                for entry in weights:
                    self.assertEqual(seen_by_c.tensor(entry.name, entry.kind),
                                     expected[entry.name])
                    mapped = checkpoint.map(entry.name)
                    self.assertEqual((bytes(mapped), mapped.shape, mapped.readonly),
                                     (expected[entry.name], entry.shape, True))
            seen_by_c.close()
            self.assertEqual(bytes(mapped), expected[entry.name])  # outlives its checkpoint

    def test_tensor_types(self):
        """a tensor is converted on the way, and a buffer of another size is refused"""
        with Life() as life:
            entry = life.engine.tensors()[0]
            wide = life.engine.read_tensor(entry)
            half = life.engine.read_tensor(entry, plait.DType.BFLOAT16)
            self.assertEqual((half.format, half.nbytes * 2), ("H", wide.nbytes))
            life.engine.write_tensor(entry, half, plait.DType.BFLOAT16)
            with self.assertRaises(TypeError):
                life.engine.write_tensor(entry, half)
            with self.assertRaises(plait.InvalidArgument):
                life.engine.read_tensor(entry, into=bytearray(8))
            with self.assertRaises((BufferError, TypeError)):
                life.engine.read_tensor(entry, into=bytes(wide.nbytes))
            life.engine.join_read(entry)

    def test_big_manifest(self):
        """the entry list of a checkpoint with a manifest above 1 MB is the one that C reads"""
        with Life() as life:
            for i in range(16):  # just below what properties may take together
                life.engine.set_property(f"text.{i:02}", chr(0x1F600 + i) * 16250)
            life.engine.set_property("whole", 2**53 + 1)
            life.engine.set_property("real", 0.1)
            with life.engine.save(self.root) as operation:
                step = operation.wait()["path"]
            sizes = [os.path.getsize(os.path.join(step, name)) for name in os.listdir(step)
                     if "manifest" in name.lower()]
            self.assertGreater(max(sizes), 1000000)
            with plait.Checkpoint(life.context, self.root) as checkpoint:
                mine = [entry_line(entry) for entry in checkpoint]
            seen_by_c = CCheckpoint(self.root)
            others = list(seen_by_c.entries())
            seen_by_c.close()
            digests = [hashlib.sha256("\n".join(lines).encode()).hexdigest()
                       for lines in (mine, others)]
            self.assertGreater(len(mine), 100)
            self.assertEqual(*digests)

    def test_operation(self):
        """an operation is polled while training goes on"""
        with Life() as life:
            batch = life.filled()
            life.engine.step(batch)
            polls, last = 0, 0
            with life.engine.save(self.root) as operation:
                while not operation.is_done:
                    progress = operation.progress()
                    self.assertGreaterEqual(progress.done_bytes, last)
                    last, polls = progress.done_bytes, polls + 1
                    life.engine.step(batch)
                report = operation.wait(timeout=0)
                self.assertEqual(operation.progress().state, plait.OperationState.DONE)
                self.assertEqual(report["step"], 1)
                operation.cancel()
                self.assertEqual(operation.result(), report)
            self.assertEqual(life.engine.step(batch).step, polls + 2)
            self.assertEqual(plait.list_checkpoints(life.context, self.root)["steps"][0]["step"],
                             1)

    def test_failed_operation(self):
        """an operation that fails raises its error, and a wait that is too short its own"""
        with Life() as life, tempfile.TemporaryDirectory() as directory:
            text = os.path.join(directory, "text")
            with open(text, "wb") as file:
                file.write(os.urandom(1 << 20))
            with plait.Tokenizer(life.context) as tokenizer:
                with tokenizer.encode_file(text, os.path.join(directory, "no/where")) as operation:
                    with self.assertRaises(plait.PlaitError):
                        operation.wait()
                    self.assertEqual(operation.progress().state, plait.OperationState.FAILED)
                with tokenizer.encode_file(text, os.path.join(directory, "tokens")) as operation:
                    try:
                        operation.wait(timeout=0)
                    except plait.DeadlineExceeded as error:
                        self.assertEqual(error.disposition, plait.Disposition.RETRY)
                    operation.wait(timeout=60)
                life.config["data.train"] = os.path.join(directory, "tokens")
                life.config["data.shuffle"] = False
                with plait.Dataset(life.context, life.config) as dataset:
                    self.assertEqual(dataset.describe().tokens, 1 << 20)
                    sample = dataset.read(1, 2)
                    self.assertEqual(sample.shape, (2, 33))
                    with open(text, "rb") as file:
                        self.assertEqual(bytes(sample.tolist()[0]), file.read()[32:65])
                    life.engine.attach_dataset("train", dataset)
                self.assertEqual(life.engine.step().step, 1)
                life.engine.attach_dataset("train", None)

    def test_resume(self):
        """a run goes on from a checkpoint with the same losses"""
        with Life() as first, Life() as second:
            batch = first.filled()
            first.engine.step(batch)
            with first.engine.save(self.root) as operation:
                operation.wait()
            report = second.engine.load(self.root)
            self.assertEqual(report["step"], 1)
            same = second.filled()
            for _ in range(3):
                self.assertEqual(second.engine.step(same).loss, first.engine.step(batch).loss)
            with plait.Checkpoint(first.context, self.root) as checkpoint:
                with checkpoint.verify(full=True) as operation:
                    operation.wait()

    def test_damage(self):
        """a damaged checkpoint is DataLoss"""
        with Life() as life:
            with life.engine.save(self.root) as operation:
                step = operation.wait()["path"]
            shard = max((os.path.join(step, name) for name in os.listdir(step)),
                        key=os.path.getsize)
            with open(shard, "r+b") as file:
                file.seek(os.path.getsize(shard) // 2)
                byte = file.read(1)
                file.seek(-1, os.SEEK_CUR)
                file.write(bytes([byte[0] ^ 1]))
            with plait.Checkpoint(life.context, self.root) as checkpoint:
                with checkpoint.verify() as operation, self.assertRaises(plait.DataLoss):
                    operation.wait()
            with self.assertRaises(plait.DataLoss):
                life.engine.load(step)
            self.assertEqual(life.engine.step(life.filled()).step, 1)
