"""What a rank of a layout must send in a step, and hold: closed formulas of GPT-2 models (Plait's algorithm reference,
sections 2, 6, 7, 10 and 14), for schedules one_forward_one_backward and interleaved, ZeRO 0 and 1, no recompute."""

PAD = 64  # elements: parameters start at its multiples, units end at multiples of PAD times the data ranks
CHUNK_ELEMENTS = 1 << 25  # logits of a chunk of rows


def up(value, unit):
    return (value + unit - 1) // unit * unit


class Layout:
    """`keys`: a configuration of the benchmark."""

    def __init__(self, keys):
        self.tensor, self.pipeline = keys.get("layout.tensor", 1), keys.get("layout.pipeline", 1)
        self.data, self.chunks = keys.get("layout.data", 1), keys.get("layout.interleave", 1)
        self.zero = keys.get("layout.zero", 0)
        self.rows = keys["layout.micro_batch"] * keys["model.sequence_length"]
        self.micro_batches = keys["train.global_batch"] // (self.data * keys["layout.micro_batch"])
        self.layers, self.hidden, self.heads = keys["model.layers"], keys["model.hidden"], keys["model.heads"]
        self.positions, self.feed_forward = keys["model.sequence_length"], keys["model.feed_forward"]
        self.vocabulary = up(keys["model.vocab_size"], 128 * self.tensor)
        self.size = 2 if keys["precision.compute"] == "bf16" else 4
        self.stages = self.pipeline * self.chunks
        self.stage_layers = keys.get("layout.stage_layers") or [
            (stage + 1) * self.layers // self.stages - stage * self.layers // self.stages
            for stage in range(self.stages)]

    @property
    def world(self):
        return self.tensor * self.pipeline * self.data

    def coordinates(self, rank):
        """tensor, data, pipeline"""
        return rank % self.tensor, rank // self.tensor % self.data, rank // (self.tensor * self.data)

    def stages_of(self, pipeline):
        return range(pipeline, self.stages, self.pipeline)

    # Units: padded elements.
    def unit(self, sizes):
        return up(sum(up(size, PAD) for size in sizes), PAD * self.data)

    def token_unit(self):
        return self.unit([self.vocabulary // self.tensor * self.hidden])

    def units(self, stage):
        h, t, f = self.hidden, self.tensor, self.feed_forward
        layer = self.unit([h, h, 3 * h * h // t, 3 * h // t, h * h // t, h, h, h, f * h // t, f // t, f * h // t, h])
        units = [layer] * self.stage_layers[stage]
        if stage == 0:
            units += [self.token_unit(), self.unit([self.positions * h])]
        if stage == self.stages - 1:
            units += [self.unit([h, h])] + ([self.token_unit()] if self.stages > 1 else [])
        return units

    def units_of(self, pipeline):
        return [unit for stage in self.stages_of(pipeline) for unit in self.units(stage)]

    def second_uses(self):
        """Of the tied embedding, where both uses are on one rank."""
        return [self.token_unit()] if self.stages == 1 else []

    # Messages: bytes that one rank sends.
    def all_reduce(self, elements, size, members, index):
        total = elements * size
        if total <= 1024 or total * (members - 1) <= 16384:
            return total * (members - 1)
        parts = [(elements * (i + 1) // members - elements * i // members) * size for i in range(members)]
        return total - parts[index] + parts[index] * (members - 1)

    def row_chunks(self):
        step = min(max(CHUNK_ELEMENTS // (self.vocabulary // self.tensor) // 64 * 64, 64), 4096)
        return [min(step, self.rows - first) for first in range(0, self.rows, step)]

    def sums(self, members):
        """Loss, targets, wish to stop, and the squares of each logical tensor."""
        return 8 * (3 + 4 + 16 * self.layers) * (members - 1)

    def boundary(self):
        """Of a stage: each tensor rank sends its slice."""
        return (self.rows * self.hidden + self.tensor - 1) // self.tensor * self.size

    def sent(self, rank):
        """{(axis, collective): bytes} of a step."""
        tensor, _, pipeline = self.coordinates(rank)
        out = {}

        def add(axis, kind, count):
            if count:
                out[axis, kind] = out.get((axis, kind), 0) + count
        m, last = self.micro_batches, self.stages - 1
        for stage in self.stages_of(pipeline):
            if self.tensor > 1:
                whole = self.all_reduce(self.rows * self.hidden, self.size, self.tensor, tensor)
                add("tensor", "all_reduce", m * whole * (4 * self.stage_layers[stage] + (stage == 0) + (stage == last)))
                if stage == last:
                    add("tensor", "all_reduce", m * sum(self.all_reduce(rows, 4, self.tensor, tensor)
                                                        + self.all_reduce(2 * rows, 4, self.tensor, tensor)
                                                        for rows in self.row_chunks()))
            neighbours = (stage < last) + (stage > 0)  # a forward message there, a backward one here
            add("pipeline", "send_receive", m * neighbours * self.boundary())
            add("tensor", "all_gather", m * neighbours * self.boundary() * (self.tensor - 1))
        if self.pipeline > 1 and pipeline in (0, self.pipeline - 1):
            add("pipeline", "send_receive", self.token_unit() // self.data * 4)
        if self.data > 1:
            share = self.data - 1
            units = self.units_of(pipeline)
            add("data", "reduce_scatter", sum(4 * unit // self.data * share for unit in units + self.second_uses()))
            size = 4 if self.zero == 0 else self.size
            add("data", "all_gather", sum(size * unit // self.data * share for unit in units))
        for axis, members in (("tensor", self.tensor), ("pipeline", self.pipeline), ("data", self.data)):
            add(axis, "all_gather", self.sums(members))
        return out

    # Memory.
    def alive(self, pipeline):
        """Most micro-batches whose state is kept at once, by stage of this coordinate."""
        p, v, m = self.pipeline, self.chunks, self.micro_batches
        forward = [(p * (i // (p * v)) + i % p, i % (p * v) // p) for i in range(m * v)] if v > 1 else \
            [(i, 0) for i in range(m)]
        backward = [(micro, v - 1 - chunk) for micro, chunk in forward]
        warm = min(m * v, 2 * (p - 1 - pipeline) + (v - 1) * p if v > 1 else p - 1 - pipeline)
        order = [(1, forward[i][1]) for i in range(warm)]
        for i in range(m * v - warm):
            order += [(1, forward[warm + i][1]), (-1, backward[i][1])]
        order += [(-1, backward[m * v - warm + i][1]) for i in range(warm)]
        now, most = [0] * v, [0] * v
        for change, chunk in order:
            now[chunk] += change
            most[chunk] = max(most[chunk], now[chunk])
        return most

    def state_bytes(self):
        """Kept of one layer and micro-batch: A, with the statistics of norms and attention."""
        h, t, z = self.hidden, self.tensor, self.size
        return self.rows * (4 * z * h + z * (4 * h + 2 * self.feed_forward) // t + 16 + 4 * self.heads // t)

    def memory(self, rank):
        """{category: bytes}; weights without the forms that kernels make of them, workspace the logits of a chunk."""
        _, _, pipeline = self.coordinates(rank)
        h, t, z, rows = self.hidden, self.tensor, self.size, self.rows
        elements, stream = sum(self.units_of(pipeline)), rows * h * z
        state = (8 if z == 4 else 12) * elements
        activations = workspace = 0
        for stage, slots in zip(self.stages_of(pipeline), self.alive(pipeline)):
            kept = self.stage_layers[stage] * self.state_bytes() + stream  # and the output
            activations += stream  # the gradient of the stream
            if self.stage_layers[stage]:
                activations += 2 * stream + rows * z * (self.feed_forward + 3 * h) // t
            if stage == self.stages - 1:
                kept += 8 * rows + stream
                workspace = self.row_chunks()[0] * self.vocabulary // t * (4 if z == 4 else 4 + z)
            activations += slots * kept
        return {"weights": z * elements, "gradients": 4 * (elements + sum(self.second_uses())),
                "optimizer": state // self.data if self.zero else state, "activations": activations,
                "communication": 2 * self.boundary() if self.pipeline > 1 else 0, "workspace": workspace}

    def compare_memory(self, rank, report):
        """A rank's part of the report "memory" beside `memory`: (bytes without the forms that kernels make of weights, bytes
        of these forms, the former over the formula, MB by category as text)."""
        wanted = self.memory(rank)
        packed = report["weights_bytes"] - wanted["weights"]
        total = report["total_bytes"] - packed
        parts = ", ".join(f"{name} {report[name + '_bytes'] / 1e6:.1f} of {wanted[name] / 1e6:.1f}"
                          for name in ("gradients", "optimizer", "activations", "communication", "workspace"))
        return total, packed, total / sum(wanted.values()), parts

    # Time.
    def idle_share(self):
        """Of a pipeline with equal stages."""
        bubble = (self.pipeline - 1) / (self.chunks * self.micro_batches)
        return bubble / (1 + bubble)
