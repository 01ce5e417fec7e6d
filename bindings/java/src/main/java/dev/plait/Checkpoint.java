package dev.plait;

import dev.plait.internal.Api;
import dev.plait.internal.plait_entry_info;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;

/**
 * A checkpoint on disk, or a Hugging Face directory, opened without an engine. {@link Engine#save} and
 * {@link Engine#load} are for a live one.
 */
public final class Checkpoint extends Handle {
  private Checkpoint(long address) {
    super("checkpoint", address, Api::plait_checkpoint_free, null);
  }

  /**
   * Opens a checkpoint.
   *
   * @param context what it hangs on
   * @param path a root (its newest valid step), one step of it, or a Hugging Face directory
   * @return an open checkpoint
   */
  public static Checkpoint open(Context context, String path) {
    return new Checkpoint(context.number(c -> Api.plait_checkpoint_open(c, path)));
  }

  /**
   * Lists the steps of a root.
   *
   * @param context any
   * @param root directory of steps
   * @return JSON about them
   */
  public static String list(Context context, String root) {
    return context.get(c -> Api.plait_checkpoint_list(c, root));
  }

  /**
   * Describes what is open.
   *
   * @return JSON: format, step, model, layout and so on, as far as the format has them
   */
  public String report() {
    return get(Api::plait_checkpoint_report);
  }

  /**
   * What it holds.
   *
   * @return tensors in order of name and kind, then properties
   */
  public List<Entry> entries() {
    return get(checkpoint -> {
      List<Entry> entries = new ArrayList<>();
      try (plait_entry_info info = new plait_entry_info()) {
        for (long i = 0; i < Api.plait_checkpoint_entry_count(checkpoint); i++) {
          Api.plait_checkpoint_entry_at(checkpoint, i, info);
          entries.add(Entry.of(info));
        }
      }
      return List.copyOf(entries);
    });
  }

  /**
   * Sets a key for later calls on what is open: {@code checkpoint.mmap} alone.
   *
   * @param key the key
   * @param value its text; null is the default
   */
  public void set(String key, String value) {
    run(checkpoint -> Api.plait_checkpoint_set(checkpoint, key, value));
  }

  /**
   * One whole tensor in its stored type, verified.
   *
   * @param name of the tensor
   * @param kind one of {@link Kind}
   * @return a direct buffer in native byte order that cannot be written, and must not be read after
   *     {@link #close}
   * @throws IllegalArgumentException for a tensor beyond 2³¹−1 bytes: read parts of it
   */
  public ByteBuffer map(String name, int kind) {
    return map(name, kind, 0, -1);
  }

  /**
   * A part of a tensor, as {@link #map(String, int)}.
   *
   * @param name of the tensor
   * @param kind one of {@link Kind}
   * @param offset of the first byte
   * @param bytes how many; -1 for all behind the offset
   * @return a direct buffer upon them
   */
  public ByteBuffer map(String name, int kind, long offset, int bytes) {
    return get(checkpoint -> {
      long[] address = new long[1];
      long[] size = new long[1];
      Api.plait_checkpoint_map(checkpoint, name, kind, address, size);
      long length = bytes < 0 ? size[0] - offset : bytes;
      Objects.checkFromIndexSize(offset, length, size[0]);
      ByteBuffer view = NativeMemory.at(address[0] + offset, length);
      return view.asReadOnlyBuffer().order(view.order());
    });
  }

  /**
   * Reads and checks everything. Damage makes the operation fail with {@link PlaitException.DataLoss}.
   *
   * @param isFull gaps and unread parts too
   * @return the operation
   */
  public Operation verify(boolean isFull) {
    return new Operation(
        number(checkpoint -> Api.plait_checkpoint_verify(checkpoint, isFull ? 1 : 0)));
  }

  /**
   * Writes what is open as a checkpoint in another layout.
   *
   * @param layout whose keys layout.* count
   * @param root directory of steps
   * @return the operation
   */
  public Operation convert(Config layout, String root) {
    return new Operation(number(checkpoint -> layout.number(
        keys -> Api.plait_checkpoint_convert(checkpoint, keys, root))));
  }

  /**
   * Writes a Hugging Face directory, which appears whole or not at all.
   *
   * @param options keys export.*, or null
   * @param directory to be made
   * @return the operation
   */
  public Operation exportHuggingFace(Config options, String directory) {
    return new Operation(number(checkpoint -> number(
        options, keys -> Api.plait_checkpoint_export_hf(checkpoint, keys, directory))));
  }
}
