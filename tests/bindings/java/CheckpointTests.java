import dev.plait.Checkpoint;
import dev.plait.Config;
import dev.plait.Disposition;
import dev.plait.Entry;
import dev.plait.Kind;
import dev.plait.NativeMemory;
import dev.plait.Operation;
import dev.plait.OperationState;
import dev.plait.PlaitException;
import dev.plait.Progress;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.stream.Stream;

/** Saves, loads and checkpoints without an engine; what C reads of them. */
final class CheckpointTests {
  private static final int PROPERTIES = 23;

  private final Reference reference;
  private final Path directory;
  private final String root;

  private CheckpointTests(Reference reference, Path directory) {
    this.reference = reference;
    this.directory = directory;
    root = directory.resolve("root-😀").toString();
  }

  static void run(Reference reference, Path directory) {
    CheckpointTests tests = new CheckpointTests(reference, directory);
    Tap.test("an operation is polled while the engine steps, under a path with emoji", tests::poll);
    Tap.test("all state that was perturbed and saved is the bytes that C reads", tests::content);
    Tap.test("entries beside a manifest above 1 MB are those that C reads", tests::entries);
    Tap.test("a load goes on at the step that was saved", tests::load);
    Tap.test("a checkpoint is mapped, verified, converted and exported", tests::offline);
    Tap.test("damage is named", tests::damage);
  }

  private void poll() {
    try (Rig rig = new Rig(Rig.SMALL);
        Operation save = rig.filled().engine.save(root, Duration.ofSeconds(20))) {
      int steps = 0;
      Progress progress;
      do {
        rig.filled().engine.step(rig.batch);
        steps++;
        progress = save.progress();
      } while (progress.state() == OperationState.RUNNING);
      Tap.equal(OperationState.DONE, progress.state());
      Tap.check(steps >= 1 && progress.doneBytes() == progress.totalBytes()
          && progress.totalBytes() > 0, progress);
      save.await();
      save.await(Duration.ZERO);
      Tap.check(save.result().startsWith("{"), save.result());
      save.cancel();
    }
    try (Rig rig = new Rig(Rig.SMALL); Operation save = rig.engine.save(root + "-2", null)) {
      for (boolean isDone = false; !isDone; ) {
        try {
          save.await(Duration.ZERO);
          isDone = true;
        } catch (PlaitException.DeadlineExceeded error) {
          Tap.equal("deadline", error.word());
          Tap.equal(Disposition.RETRY, error.disposition());
        }
      }
    }
  }

  private void content() throws Exception {
    String path = directory.resolve("content").toString();
    try (Rig rig = new Rig(Rig.SMALL)) {
      rig.filled().engine.step(rig.batch);
      for (Entry tensor : rig.engine.tensors()) {
        if (tensor.kind() != Kind.PARAM) continue;
        float[] values = rig.engine.readFloats(tensor, null);
        for (int i = 0; i < values.length; i++) values[i] *= 1 + (i % 13) / 64f;
        rig.engine.writeFloats(tensor, values, null);
      }
      save(rig, path);
      Fnv live = new Fnv();
      Fnv stored = new Fnv();
      int count = 0;
      try (Checkpoint checkpoint = Checkpoint.open(rig.context, path)) {
        for (Entry entry : checkpoint.entries()) {
          if (entry.kind() == 0) continue;
          count++;
          stored.add(checkpoint.map(entry.name(), entry.kind()));
          try (NativeMemory memory = NativeMemory.allocate(entry.elements() * Float.BYTES)) {
            rig.engine.readTensor(entry.name(), entry.kind(), entry.dataType(), memory, null);
            live.add(memory.view(0, (int) memory.size()));
          }
        }
      }
      String inC = reference.run("", "tensors", path);
      Tap.equal(inC, count + " " + live.hex());
      Tap.equal(inC, count + " " + stored.hex());
    }
  }

  private static void save(Rig rig, String path) {
    try (Operation save = rig.engine.save(path, null)) {
      save.await();
    }
  }

  private void entries() throws Exception {
    String path = directory.resolve("large-😀").toString();
    try (Rig rig = new Rig(Rig.LEAST)) {
      for (int i = 0; i < PROPERTIES; i++) {
        rig.engine.setProperty("text." + i, (i + " 😀 ").repeat(6000));
      }
      rig.engine.setProperty("integer", (1L << 53) + 1);
      rig.engine.setProperty("real", -0.1);
      save(rig, path);
      try (Checkpoint checkpoint = Checkpoint.open(rig.context, path)) {
        List<Entry> entries = checkpoint.entries();
        Fnv hash = new Fnv();
        entries.forEach(entry -> hash.add(text(entry)));
        Tap.equal(reference.run("", "entries", path), entries.size() + " " + hash.hex());
        Tap.equal((1L << 53) + 1, property(entries, "integer"));
        Tap.equal(-0.1, property(entries, "real"));
        Tap.equal("7 😀 ".repeat(6000), property(entries, "text.7"));
      }
    }
    Tap.check(largest(path, "MANIFEST") > 1_000_000, "the manifest is too small to prove anything");
  }

  private static Object property(List<Entry> entries, String name) {
    return entries.stream().filter(one -> one.name().equals(name)).findFirst().orElseThrow().value();
  }

  /** As reference.c adds it up. */
  private static String text(Entry entry) {
    StringBuilder text = new StringBuilder(entry.name());
    text.append(' ').append(entry.kind()).append(' ').append(entry.dataType());
    for (long size : entry.shape()) text.append(' ').append(size);
    text.append(' ').append(entry.elements());
    if (entry.hasDigest()) text.append(' ').append(entry.digest());
    if (entry.value() instanceof Long integer) text.append(' ').append(integer);
    if (entry.value() instanceof Double real) text.append(' ').append(Double.doubleToLongBits(real));
    if (entry.value() instanceof String value) text.append(value);
    return text.append('\n').toString();
  }

  private static long largest(String path, String name) throws IOException {
    try (Stream<Path> files = Files.walk(Path.of(path))) {
      return files.filter(file -> file.getFileName().toString().equals(name))
          .mapToLong(CheckpointTests::size).max().orElse(0);
    }
  }

  private static long size(Path file) {
    try {
      return Files.size(file);
    } catch (IOException failure) {
      throw new UncheckedIOException(failure);
    }
  }

  private void load() {
    String path = directory.resolve("resumed").toString();
    try (Rig saved = new Rig(Rig.SMALL); Rig loaded = new Rig(Rig.SMALL)) {
      saved.filled().engine.step(saved.batch);
      save(saved, path);
      Tap.check(loaded.engine.load(path, null).contains("step"), "no report");
      Tap.equal(saved.filled().engine.step(saved.batch).loss(),
          loaded.filled().engine.step(loaded.batch).loss());
      Tap.check(Checkpoint.list(saved.context, path).contains("step"), "no step");
      Tap.equal("NOT_FOUND", Tap.thrown(PlaitException.class,
          () -> loaded.engine.load(path + "-none", null)).codeName());
    }
  }

  private void offline() {
    try (Rig rig = new Rig(Rig.SMALL); Config layout = Config.create(rig.context)) {
      save(rig, directory.resolve("offline").toString());
      try (Checkpoint checkpoint =
          Checkpoint.open(rig.context, directory.resolve("offline").toString())) {
        Tap.check(checkpoint.report().contains("layout"), checkpoint.report());
        Entry entry = checkpoint.entries().get(0);
        var whole = checkpoint.map(entry.name(), entry.kind());
        Tap.check(whole.isReadOnly() && whole.isDirect(), whole);
        Tap.equal(whole.getFloat(4), checkpoint.map(entry.name(), entry.kind(), 4, 4).getFloat(0));
        Tap.thrown(IndexOutOfBoundsException.class,
            () -> checkpoint.map(entry.name(), entry.kind(), whole.capacity() - 3L, 4));
        checkpoint.set("checkpoint.mmap", "true");
        Tap.equal(whole, checkpoint.map(entry.name(), entry.kind()));
        layout.load(Rig.SMALL);
        layout.set("layout.tensor", "2");
        for (Operation op : Arrays.asList(checkpoint.verify(true),
            checkpoint.convert(layout, directory.resolve("converted").toString()),
            checkpoint.exportHuggingFace(null, directory.resolve("exported").toString()))) {
          try (op) {
            op.await(Duration.ofSeconds(20));
          }
        }
        try (Checkpoint converted =
            Checkpoint.open(rig.context, directory.resolve("converted").toString())) {
          Tap.equal(whole, converted.map(entry.name(), entry.kind()));
        }
        Tap.check(Files.exists(directory.resolve("exported/model.safetensors")), "no export");
      }
    }
  }

  private void damage() throws Exception {
    Path path = directory.resolve("damaged");
    try (Rig rig = new Rig(Rig.SMALL)) {
      save(rig, path.toString());
      List<Path> files;
      try (Stream<Path> all = Files.walk(path)) {
        files = all.filter(Files::isRegularFile)
            .filter(file -> !file.getFileName().toString().equals("MANIFEST")).toList();
      }
      Path shard = files.stream().max((a, b) -> Long.compare(size(a), size(b))).orElseThrow();
      byte[] bytes = Files.readAllBytes(shard);
      bytes[bytes.length / 2] ^= 1;
      Files.write(shard, bytes);
      try (Checkpoint checkpoint = Checkpoint.open(rig.context, path.toString());
          Operation verify = checkpoint.verify(false)) {
        PlaitException.DataLoss error =
            Tap.thrown(PlaitException.DataLoss.class, () -> verify.await());
        Tap.check(error.details().contains(shard.getFileName().toString()), error.details());
        Tap.equal(OperationState.FAILED, verify.progress().state());
      }
    }
  }
}
