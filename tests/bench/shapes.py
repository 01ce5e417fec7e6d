"""The shapes of whole steps, their FLOPs, and the values to reach."""

GPT2, LLAMA = "gpt2", "llama"


class Shape:
    """One model with one batch. `vocabulary` counts real ids; logits are computed for a padded number of them."""

    def __init__(self, name, family, layers, hidden, heads, sequence, vocabulary, batch, key_value_heads=0,
                 feed_forward=0, tied=True):
        self.name, self.family, self.layers, self.hidden, self.heads = name, family, layers, hidden, heads
        self.sequence, self.vocabulary, self.batch = sequence, vocabulary, batch
        self.key_value_heads = key_value_heads or heads
        self.feed_forward = feed_forward or 4 * hidden
        self.tied = tied

    @property
    def torch_vocabulary(self):
        """Padded where that is usual and faster: with many ids."""
        return self.vocabulary if self.vocabulary < 1024 else (self.vocabulary + 63) // 64 * 64

    @property
    def padded_vocabulary(self):
        """Of Plait's logits."""
        return (self.vocabulary + 127) // 128 * 128

    @property
    def tokens(self):
        return self.batch * self.sequence

    @property
    def flops(self):
        """Of a step, convention `model`: causal attention counted whole, real vocabulary."""
        s, h = self.sequence, self.hidden
        head = h // self.heads
        width = self.heads * head
        products = 2 if self.family == GPT2 else 3
        layer = 2 * s * (2 * h * width + 2 * h * self.key_value_heads * head + products * h * self.feed_forward)
        attention = 4 * s * s * width
        logits = 2 * s * h * self.vocabulary
        return 3 * self.batch * (self.layers * (layer + attention) + logits)

    def plait_keys(self, compute, threads):
        """Configuration: the whole batch is one micro-batch, as in the peer."""
        return {
            "model.family": self.family, "model.layers": self.layers, "model.hidden": self.hidden,
            "model.heads": self.heads, "model.key_value_heads": self.key_value_heads,
            "model.feed_forward": self.feed_forward, "model.vocab_size": self.vocabulary,
            "model.sequence_length": self.sequence, "model.tied": self.tied, "precision.compute": compute,
            "train.global_batch": self.batch, "layout.micro_batch": self.batch, "threads": threads,
            "optimizer.lr": 1e-4,
        }


SHAPES = {
    "a": Shape("(a) char 6x384", GPT2, 6, 384, 6, 256, 65, 16),
    "b1": Shape("(b) 124M B1", GPT2, 12, 768, 12, 1024, 50257, 1),
    "b4": Shape("(b) 124M B4", GPT2, 12, 768, 12, 1024, 50257, 4),
    "c": Shape("(c) wide 4x1024", GPT2, 4, 1024, 16, 512, 50304, 4),
    "d": Shape("(d) Llama 8x768", LLAMA, 8, 768, 12, 1024, 32000, 2, key_value_heads=4, feed_forward=2048,
               tied=False),
}

# Share of the product ceiling of a whole step, percent: floor, aim. AMX where the machine has it, else FMA.
STEP_SHARE = {
    "amx": {"a": (14, 16), "b1": (15, 21), "b4": (18, 26), "c": (19, 26), "d": (16, 24)},
    "fma": {"a": (55, 65), "b1": (55, 65), "b4": (55, 65), "c": (60, 68), "d": (55, 65)},
}
# Tokens per second over the newest PyTorch at its best, and over one from before version 2.
TORCH_SPEED = {"bf16": (1.5, 2.0), "fp32": (1.15, 1.4)}
OLD_TORCH_SPEED = {"bf16": (2.5, 3.5), "fp32": (1.15, 1.4)}
LLMC_SPEED = {"T64": (7, 9), "b1": (12, 17)}  # tokens per second over llm.c
BUSY_RATIO = (2.0, 1.6)  # a step beside a busy neighbour over one alone, at most
TORCH_MEMORY = 0.6  # of PyTorch's peak, at most
STEP_MEMORY = {("b4", "bf16"): (4.3e9, 3.3e9), ("b4", "fp32"): (5.8e9, 4.3e9)}  # bytes, at most
CREATION_SECONDS = 2.0  # 124M
PRODUCT_SHARE = {
    "amx": {"forward": (38, 50), "backward input": (38, 50), "backward weight": (33, 45), "logits": (34, 45)},
    "fma": {"forward": (70, 80), "backward input": (70, 80), "backward weight": (70, 80), "logits": (70, 80)},
}
FUSED_SHARE = (80, 90)  # of triad
ADAMW_SHARE = (85, 95)  # of triad with non-temporal stores
FIRST_STEP_RATIO = 3.0  # first step over later ones, at most
THREAD_RATIO = 1.05  # a step from another thread over one from the main thread, at most
ACCUMULATION_RATIO = 1.02  # time of a micro-batch, 16 over 1 in a step, at most
