import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;

/** The program of reference.c. */
final class Reference {
  private final String program;
  private final Path directory;

  Reference(String program, Path directory) {
    this.program = program;
    this.directory = directory;
  }

  /** What it prints on stdout, given a text on stdin. */
  String run(String input, String... arguments) throws IOException, InterruptedException {
    Path in = Files.writeString(directory.resolve("reference.in"), input);
    List<String> command = new ArrayList<>(List.of(program));
    command.addAll(List.of(arguments));
    Process process = new ProcessBuilder(command).redirectInput(in.toFile())
        .redirectError(ProcessBuilder.Redirect.INHERIT).start();
    String output =
        new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8).strip();
    Tap.equal(0, process.waitFor());
    return output;
  }
}
