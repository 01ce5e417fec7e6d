import dev.plait.Batch;
import dev.plait.BatchSpec;
import dev.plait.Config;
import dev.plait.Context;
import dev.plait.DataType;
import dev.plait.Dataset;
import dev.plait.DatasetInfo;
import dev.plait.Entry;
import dev.plait.KeyInfo;
import dev.plait.Kind;
import dev.plait.Metrics;
import dev.plait.NativeMemory;
import dev.plait.Operation;
import dev.plait.PlaitException;
import dev.plait.Plan;
import dev.plait.Scope;
import dev.plait.Span;
import dev.plait.Tokenizer;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.IntBuffer;
import java.nio.ReadOnlyBufferException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Arrays;
import java.util.List;

/** What a host does with batches, datasets, weights, tokenizers and plans. */
final class TrainTests {
  private TrainTests() {}

  static void run(Path directory) {
    Tap.test("a batch filled in place is what was put into it", TrainTests::map);
    Tap.test("a batch of another shape than its values is refused", TrainTests::shape);
    Tap.test("a batch cut in two parts makes the step of the whole", TrainTests::parts);
    Tap.test("a local batch is fed by its spans", TrainTests::local);
    Tap.test("evaluation and score agree, generation continues", TrainTests::look);
    Tap.test("a dataset feeds steps without a batch", () -> dataset(directory));
    Tap.test("weights are read, perturbed, written and read again", TrainTests::weights);
    Tap.test("a buffer that C would misread is refused", TrainTests::buffers);
    Tap.test("memory is seen through views, within its bounds", TrainTests::memory);
    Tap.test("text becomes ids and comes back", () -> tokenizer(directory));
    Tap.test("keys are listed, a configuration is dumped and checked", TrainTests::config);
    Tap.test("layouts are planned and applied", TrainTests::plan);
    Tap.test("counters, reports and run-time keys", TrainTests::reports);
  }

  private static void map() {
    try (Rig mapped = new Rig(Rig.SMALL); Rig set = new Rig(Rig.SMALL)) {
      for (int step = 0; step < 3; step++) {
        BatchSpec spec = mapped.engine.batchSpec();
        long columns = spec.sequenceLength() + 1;
        IntBuffer tokens = mapped.batch.map("tokens", spec.globalRows(), columns);
        Tap.check(tokens.isDirect() && tokens.order() == ByteOrder.nativeOrder(), tokens);
        int[] ids = Rig.ids(spec);
        tokens.put(ids);
        int[] found = new int[ids.length];
        mapped.batch.map("tokens", spec.globalRows(), columns).get(found);
        Tap.check(Arrays.equals(ids, found), "the memory is another one");
        Metrics metrics = mapped.engine.step(mapped.batch, Duration.ofSeconds(20));
        Tap.equal(set.filled().engine.step(set.batch).loss(), metrics.loss());
        Tap.check(metrics.hasStep() && metrics.hasTime() && metrics.hasMemory(), metrics);
        Tap.check(metrics.tokens() == 128 && metrics.targets() == 128 && !metrics.skipped()
            && metrics.samplesTotal() == 4 * (step + 1) && metrics.lr() > 0
            && metrics.gradNorm() > 0 && metrics.memoryBytes() > 0, metrics);
      }
    }
  }

  private static void shape() {
    try (Rig rig = new Rig(Rig.SMALL)) {
      Tap.thrown(IllegalArgumentException.class,
          () -> rig.batch.set("tokens", new int[10], 3, 4));
      rig.batch.set("tokens", new int[2 * 33], 2, 33);
      Tap.thrown(PlaitException.InvalidArgument.class, () -> rig.engine.step(rig.batch));
      rig.batch.set("tokens", new int[4 * 33], 4, 33);
      rig.batch.map("tokens", 4, 33).put(7, 256);
      Tap.equal("token_range", Tap.thrown(PlaitException.InvalidArgument.class,
          () -> rig.engine.step(rig.batch)).word());
      rig.batch.remove("tokens");
      Tap.thrown(PlaitException.InvalidArgument.class, () -> rig.engine.step(rig.batch));
    }
  }

  private static void parts() {
    String halves = Rig.SMALL.replace("\"micro_batch\": 4", "\"micro_batch\": 2");
    try (Rig whole = new Rig(halves); Rig cut = new Rig(halves)) {
      int[] ids = Rig.ids(cut.engine.batchSpec());
      for (int half = 0; half < 2; half++) {
        int[] part = Arrays.copyOfRange(ids, half * ids.length / 2, (half + 1) * ids.length / 2);
        cut.batch.set("tokens", part, 2, part.length / 2);
        Tap.check(cut.engine.forwardBackward(cut.batch, null).hasStep(), "no metrics");
      }
      Metrics parted = cut.engine.optimizerStep(null);
      Metrics metrics = whole.filled().engine.step(whole.batch);
      Tap.check(Math.abs(metrics.gradNorm() / parted.gradNorm() - 1) < 1e-5, parted);
      Tap.check(parted.step() == 1 && parted.targets() == 128, parted);
    }
  }

  private static void local() {
    String two = Rig.SMALL.replace("\"micro_batch\": 4", "\"micro_batch\": 2, \"data\": 2");
    try (Rig rig = new Rig(two, 2); Rig other = new Rig(two, 2);
        Batch batch = Batch.create(rig.engine, Scope.LOCAL)) {
      BatchSpec spec = rig.engine.batchSpec();
      int columns = (int) spec.sequenceLength() + 1;
      int[] ids = Rig.ids(spec);
      IntBuffer tokens = batch.map("tokens", spec.localRows(), columns);
      for (Span span : rig.engine.batchSpans(spec.globalRows())) {
        tokens.put(ids, (int) span.first() * columns, (int) span.count() * columns);
      }
      Tap.check(!tokens.hasRemaining(), tokens);
      Tap.check(spec.needsTokens() && spec.needsTargets(), spec);
      Tap.equal(other.filled().engine.step(other.batch).loss(), rig.engine.step(batch).loss());
    }
  }

  private static void look() {
    try (Rig rig = new Rig(Rig.SMALL)) {
      rig.filled();
      double loss = rig.engine.evaluate(rig.batch, null).loss();
      float[] scores = rig.engine.score(rig.batch, null);
      Tap.equal(128, scores.length);
      double mean = 0;
      for (float score : scores) mean += score / scores.length;
      Tap.check(Math.abs(mean - loss) < 1e-4, mean + " and " + loss);
      rig.engine.set("generate.temperature", "0");
      int[] ids = rig.engine.generate(new int[] {1, 2, 3}, 5, null);
      Tap.equal(5, ids.length);
      Tap.check(Arrays.stream(ids).allMatch(id -> id >= 0 && id < 256), Arrays.toString(ids));
      rig.engine.requestStop();
      Tap.equal(null, rig.engine.generate(new int[] {1}, 5, null));
      rig.engine.requestStop();
      Tap.check(rig.engine.evaluate(rig.batch, null).stopped(), "evaluated all the same");
      rig.engine.requestStop();
      Tap.equal(null, rig.engine.score(rig.batch, null));
    }
  }

  private static void dataset(Path directory) throws Exception {
    ByteBuffer tokens = ByteBuffer.allocate(2 * 1000).order(ByteOrder.nativeOrder());
    for (int i = 0; i < 1000; i++) tokens.putShort((short) (i * 7 % 256));
    Path file = Files.write(directory.resolve("tokens-😀"), tokens.array());
    try (Rig rig = new Rig(Rig.SMALL)) {
      rig.config.set("data.train", file.toString());
      rig.config.set("data.shuffle", "false");
      try (Dataset dataset = Dataset.open(rig.context, rig.config, "train")) {
        DatasetInfo info = dataset.describe();
        Tap.equal(1000L, info.tokens());
        Tap.equal(32L, info.sequenceLength());
        int[] read = dataset.read("tokens", 2, 3);
        Tap.equal(3 * 33, read.length);
        Tap.equal(2 * 32 * 7 % 256, read[0]);
        rig.engine.attachDataset("train", dataset, null);
        Tap.equal(1L, rig.engine.step(null).step());
        rig.engine.attachDataset("train", null, null);
        Tap.thrown(PlaitException.InvalidArgument.class, () -> rig.engine.step(null));
      }
    }
  }

  private static void weights() {
    try (Rig rig = new Rig(Rig.SMALL)) {
      long elements = 0;
      for (Entry tensor : rig.engine.tensors()) {
        if (tensor.kind() != Kind.PARAM) continue;
        float[] values = rig.engine.readFloats(tensor, null);
        Tap.equal(tensor.elements(), (long) values.length);
        Tap.equal(tensor.elements(), tensor.shape().stream().reduce(1L, (a, b) -> a * b));
        for (int i = 0; i < values.length; i++) values[i] += (i % 97 - 48) / 1024f;
        rig.engine.writeFloats(tensor, values, null);
        Tap.check(Arrays.equals(values, rig.engine.readFloats(tensor, null)), tensor);
        elements += values.length;
      }
      Tap.check(elements > 30_000, elements);
      Tap.check(rig.filled().engine.step(rig.batch).loss() > 0, "no loss");
    }
  }

  private static void buffers() {
    try (Rig rig = new Rig(Rig.SMALL)) {
      Entry tensor = rig.engine.tensors().get(0);
      int bytes = (int) tensor.elements() * Float.BYTES;
      ByteBuffer right = ByteBuffer.allocateDirect(bytes + 8).order(ByteOrder.nativeOrder());
      right.position(3).limit(3 + bytes);
      read(rig, tensor, right);
      Tap.equal(rig.engine.readFloats(tensor, null)[1], right.getFloat(3 + Float.BYTES));
      rig.engine.writeTensor(tensor.name(), tensor.kind(), DataType.FLOAT32, right, null);
      read(rig, tensor, (ByteBuffer) null);
      Tap.thrown(IllegalArgumentException.class,
          () -> read(rig, tensor, ByteBuffer.allocateDirect(bytes).order(ByteOrder.BIG_ENDIAN)));
      Tap.thrown(IllegalArgumentException.class,
          () -> read(rig, tensor, ByteBuffer.allocate(bytes).order(ByteOrder.nativeOrder())));
      Tap.thrown(ReadOnlyBufferException.class, () -> read(rig, tensor, right.asReadOnlyBuffer()));
      Tap.thrown(PlaitException.InvalidArgument.class,
          () -> read(rig, tensor, right.limit(bytes).duplicate().order(ByteOrder.nativeOrder())));
    }
  }

  private static void read(Rig rig, Entry tensor, ByteBuffer into) {
    rig.engine.readTensor(tensor.name(), tensor.kind(), DataType.FLOAT32, into, null);
  }

  private static void memory() {
    try (NativeMemory memory = NativeMemory.allocate(16)) {
      memory.view(8, 8).putLong(0, 0x0102030405060708L);
      Tap.equal((byte) 8, memory.view(8, 1).get(0));
      Tap.equal(0L, memory.view(0, 8).getLong(0));
      Tap.equal(0, memory.view(16, 0).remaining());
      for (long offset : new long[] {-1, 9, Long.MAX_VALUE}) {
        Tap.thrown(IndexOutOfBoundsException.class, () -> memory.view(offset, 8));
      }
    }
    Tap.thrown(IllegalArgumentException.class, () -> NativeMemory.allocate(-1));
    Tap.thrown(OutOfMemoryError.class, () -> NativeMemory.allocate(Long.MAX_VALUE));
  }

  private static void tokenizer(Path directory) throws Exception {
    try (Context context = Context.create();
        Tokenizer tokenizer = Tokenizer.open(context, "byte", null)) {
      Tap.equal(256L, tokenizer.vocabSize());
      byte[] utf8 = "a😀".getBytes(StandardCharsets.UTF_8);
      int[] ids = tokenizer.encode("a😀");
      Tap.equal(5, ids.length);
      Tap.equal(0xf0, ids[1]);
      Tap.check(Arrays.equals(utf8, tokenizer.decode(ids)), "another text");
      Tap.equal(3, tokenizer.decode(new int[] {97, 0xf0, 0x9f}).length);
      Tap.equal(0, tokenizer.encode(new byte[0]).length);
      Path input = Files.write(directory.resolve("text-😀"), utf8);
      Path output = directory.resolve("encoded-😀");
      try (Operation op = tokenizer.encodeFile(null, input.toString(), output.toString())) {
        op.await();
      }
      Tap.equal(10L, Files.size(output));
    }
  }

  private static void config() {
    try (Context context = Context.create(); Config config = Config.create(context)) {
      List<KeyInfo> keys = config.keys();
      KeyInfo layers =
          keys.stream().filter(key -> key.key().equals("model.layers")).findFirst().orElseThrow();
      Tap.check(!layers.doc().isEmpty() && layers.resume().equals("same") && !layers.isMutable(),
          layers);
      Tap.check(keys.stream().anyMatch(KeyInfo::isMutable), "no key is mutable");
      config.load(Rig.SMALL);
      config.check();
      Tap.check(config.dump(false).contains("\"model.layers\""), config.dump(false));
      Tap.check(config.dump(true).length() > config.dump(false).length(), "no defaults");
      config.set("model.heads", "3");
      Tap.thrown(PlaitException.InvalidArgument.class, config::check);
      Tap.thrown(PlaitException.InvalidArgument.class, () -> config.load("{\"model\": "));
    }
  }

  private static void plan() {
    try (Context context = Context.create(); Config config = Config.create(context)) {
      config.load(Rig.SMALL);
      config.set("layout.data", "2");
      config.set("layout.micro_batch", "1");
      try (Plan plan = Plan.create(context, config, 2)) {
        Tap.equal(1L, plan.count());
        Tap.check(plan.at(0).isFeasible() && plan.at(0).data() == 2, plan.at(0));
        Tap.equal(1L, plan.rankAt(0, 1).data());
        Tap.check(plan.rankAt(0, 1).weightBytes() > 0, plan.rankAt(0, 1));
        Tap.check(!plan.report(0, "schedule").isEmpty(), "no schedule");
        config.set("layout.data", null);
        plan.apply(0, config);
        Tap.equal("2", config.get("layout.data"));
      }
    }
  }

  private static void reports() {
    try (Rig rig = new Rig(Rig.SMALL)) {
      rig.filled().engine.step(rig.batch);
      String counters = rig.engine.report("counters");
      String name = counters.replaceAll("(?s)^\\{\\s*\"([^\"]+)\".*", "$1");
      Tap.check(rig.engine.counter(name) >= 0, counters);
      Tap.thrown(PlaitException.class, () -> rig.engine.counter("😀"));
      Tap.check(rig.engine.report("kernels").startsWith("{"), rig.engine.report("kernels"));
      Tap.thrown(PlaitException.InvalidArgument.class, () -> rig.engine.set("model.layers", "3"));
      Tap.thrown(IllegalArgumentException.class,
          () -> rig.engine.step(rig.batch, Duration.ofMillis(-1)));
      Tap.thrown(PlaitException.InvalidArgument.class,
          () -> rig.engine.step(rig.batch, Duration.ZERO));
      rig.engine.shutdown(Duration.ofSeconds(20));
      Tap.thrown(PlaitException.class, () -> rig.engine.step(rig.batch));
    }
  }
}
