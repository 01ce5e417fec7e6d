"""What the tests share: a tiny model, memory in use, and the library as C sees it."""
import contextlib
import ctypes
import json
import os

import plait

TINY = {
    "model": {"family": "gpt2", "layers": 2, "hidden": 32, "heads": 2, "vocab_size": 256,
              "sequence_length": 32},
    "train": {"global_batch": 4}, "layout": {"micro_batch": 2}, "threads": 1, "seed": 3,
    "precision": {"compute": "fp32"}, "optimizer": {"lr": 1e-2},
}


class Life:
    """Context, configuration, group and engine of one tiny model, open until the block ends."""

    def __init__(self, **keys):
        self.stack = contextlib.ExitStack()
        self.context = self.stack.enter_context(plait.Context())
        self.config = self.stack.enter_context(plait.Config(self.context, TINY))
        for key, value in keys.items():
            self.config[key.replace("__", ".")] = value
        world = int(self.config["layout.tensor"]) * int(self.config["layout.data"])
        self.group = self.stack.enter_context(
            plait.Group(self.context, self.config, world=world))
        self.engine = plait.Engine(self.group, self.config)
        self.stack.callback(self.engine.free)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.stack.close()

    def filled(self, seed=0):
        """A batch with something to learn."""
        batch = self.engine.batch()
        spec = self.engine.batch_spec()
        columns = spec.sequence_length + 1
        memory = batch.map("tokens", spec.global_rows, columns).cast("B").cast("i")
        for i in range(len(memory)):
            memory[i] = (i * (1 + i // columns % 5) + seed) % 256
        return batch


def long_life():
    """A model whose step takes long: seconds, were it not ended before."""
    return Life(train__global_batch=40000)


def resident_bytes():
    """Memory of this process."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


class EntryInfo(ctypes.Structure):
    """plait_entry_info, as the header has it."""

    _fields_ = ([("struct_size", ctypes.c_int64), ("valid", ctypes.c_int64),
                 ("name", ctypes.c_char_p)]
                + [(name, ctypes.c_int64) for name in
                   ("kind", "dtype", "dims", "shape0", "shape1", "shape2", "shape3", "elements",
                    "digest", "type", "integer")]
                + [("real", ctypes.c_double), ("text", ctypes.c_char_p)])


class CCheckpoint:
    """A checkpoint through the C functions, past the binding."""

    def __init__(self, path):
        self.library = ctypes.CDLL("libplait.so.0.1")
        self.library.plait_checkpoint_entry_count.restype = ctypes.c_int64
        self.context, self.checkpoint = ctypes.c_void_p(), ctypes.c_void_p()
        self._call("plait_context_create", plait.values._plait.PLAIT_API_VERSION, None,
                   ctypes.byref(self.context))
        self._call("plait_checkpoint_open", self.context, os.fsencode(path),
                   ctypes.byref(self.checkpoint))

    def _call(self, name, *arguments):
        code = getattr(self.library, name)(*arguments, None)
        if code != 0:
            raise AssertionError(f"{name} returned {code}")

    def entries(self):
        """A line of text for each entry."""
        for i in range(self.library.plait_checkpoint_entry_count(self.checkpoint)):
            info = EntryInfo(struct_size=ctypes.sizeof(EntryInfo))
            self._call("plait_checkpoint_entry_at", self.checkpoint, ctypes.c_int64(i),
                       ctypes.byref(info))
            sizes = info.shape0, info.shape1, info.shape2, info.shape3
            value = None
            if info.valid & 2:
                value = {1: info.integer, 2: info.real, 3: info.text.decode()}[info.type]
            yield json.dumps([info.name.decode(), info.kind, info.dtype, sizes[:info.dims],
                              info.elements, info.digest if info.valid & 4 else None, value])

    def tensor(self, name, kind):
        """The bytes of a tensor."""
        data, size = ctypes.c_void_p(), ctypes.c_int64()
        self._call("plait_checkpoint_map", self.checkpoint, name.encode(), int(kind),
                   ctypes.byref(data), ctypes.byref(size))
        return ctypes.string_at(data, size.value)

    def close(self):
        for name, handle in ("checkpoint", self.checkpoint), ("context", self.context):
            getattr(self.library, f"plait_{name}_free")(handle)
