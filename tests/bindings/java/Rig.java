import dev.plait.Batch;
import dev.plait.BatchSpec;
import dev.plait.Config;
import dev.plait.Context;
import dev.plait.Engine;
import dev.plait.Group;
import dev.plait.Scope;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;

/** A small model in one process, its handles, and what the tests measure of the process. */
final class Rig implements AutoCloseable {
  /** A step of it takes a millisecond or so. */
  static final String SMALL = """
      {"model": {"family": "gpt2", "layers": 2, "hidden": 32, "heads": 2, "vocab_size": 256,
                 "sequence_length": 32},
       "train": {"global_batch": 4}, "layout": {"micro_batch": 4}, "threads": 1}
      """;
  /** It is built in no time. */
  static final String LEAST = """
      {"model": {"family": "gpt2", "layers": 1, "hidden": 8, "heads": 1, "vocab_size": 16,
                 "sequence_length": 8},
       "train": {"global_batch": 1}, "threads": 1}
      """;

  final Context context;
  final Config config;
  final Group group;
  final Engine engine;
  final Batch batch;

  Rig(String json) {
    this(json, 1);
  }

  /** All ranks are threads of this process. */
  Rig(String json, int ranks) {
    context = Context.create();
    config = Config.create(context);
    config.load(json);
    group = Group.create(context, config, 0, ranks, ranks);
    engine = Engine.create(group, config);
    batch = Batch.create(engine, Scope.GLOBAL);
  }

  /** Ids for the next step, which depend on nothing else. */
  static int[] ids(BatchSpec spec) {
    int columns = (int) spec.sequenceLength() + 1;
    int[] ids = new int[(int) spec.globalRows() * columns];
    for (int i = 0; i < ids.length; i++) {
      ids[i] = (int) ((spec.firstSample() * 31 + i * 7 + i / columns) % spec.vocabSize());
    }
    return ids;
  }

  /** Puts the ids of the next step into the batch. */
  Rig filled() {
    BatchSpec spec = engine.batchSpec();
    batch.set("tokens", ids(spec), spec.globalRows(), spec.sequenceLength() + 1);
    return this;
  }

  @Override
  public void close() {
    for (AutoCloseable handle : List.of(batch, engine, group, config, context)) {
      try {
        handle.close();
      } catch (Exception failure) {
        throw new IllegalStateException(failure);
      }
    }
  }

  /** Makes and frees everything that a run consists of. */
  static void cycle() {
    try (Rig rig = new Rig(LEAST)) {
      rig.filled().engine.step(rig.batch);
    }
  }

  /** Resident memory of the process in kB. The heap is resident from the start (see java.sh). */
  static long residentKilobytes() throws IOException {
    for (String line : Files.readAllLines(Path.of("/proc/self/status"))) {
      if (line.startsWith("VmRSS:")) return Long.parseLong(line.replaceAll("[^0-9]", ""));
    }
    throw new IOException("no VmRSS in /proc/self/status");
  }
}
