package dev.plait.internal;

import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;

/**
 * Loads the native half of the binding, once in a class loader. A jar carries its libraries for each
 * platform in a folder of its own, beside a list of their names; without such a folder the library
 * plait_java is looked for on java.library.path.
 */
final class NativeLibrary {
  private static final String LIST = "libraries";

  private NativeLibrary() {}

  static void load() {
    String folder = folder(System.getProperty("os.name"), System.getProperty("os.arch"));
    List<String> names = carried(folder);
    if (names.isEmpty()) {
      System.loadLibrary("plait_java");
      return;
    }
    try {
      loadCopies(folder, names);
    } catch (IOException failure) {
      throw new UncheckedIOException("the native libraries cannot be unpacked", failure);
    }
  }

  private static String folder(String system, String machine) {
    return system.toLowerCase(Locale.ROOT) + "-" + (machine.equals("amd64") ? "x86_64" : machine) + "/";
  }

  /** Names in the folder, the one to load last; none where this platform has no folder. */
  private static List<String> carried(String folder) {
    try (InputStream list = NativeLibrary.class.getResourceAsStream(folder + LIST)) {
      if (list == null) return List.of();
      return new String(list.readAllBytes(), StandardCharsets.UTF_8).lines().toList();
    } catch (IOException failure) {
      throw new UncheckedIOException(failure);
    }
  }

  /**
   * The last library finds the others beside it. What is loaded stays in memory when its file goes, so
   * that nothing is left in the temporary directory, however the JVM ends.
   */
  private static void loadCopies(String folder, List<String> names) throws IOException {
    Path directory = Files.createTempDirectory("plait-");
    List<Path> copies = new ArrayList<>();
    try {
      for (String name : names) {
        Path copy = directory.resolve(name);
        copies.add(copy);
        try (InputStream library = NativeLibrary.class.getResourceAsStream(folder + name)) {
          if (library == null) throw new IOException(folder + name + " is not in the jar");
          Files.copy(library, copy);
        }
      }
      System.load(copies.get(copies.size() - 1).toString());
    } finally {
      for (Path copy : copies) Files.deleteIfExists(copy);
      Files.deleteIfExists(directory);
    }
  }
}
