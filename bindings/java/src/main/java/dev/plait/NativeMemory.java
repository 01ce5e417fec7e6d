package dev.plait;

import dev.plait.internal.Api;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Objects;

/**
 * Native memory for tensors that may be longer than a {@link ByteBuffer} can be, which ends at 2³¹−1
 * bytes: it is read and written through views. The memory begins as zeros.
 */
public final class NativeMemory extends Handle {
  private final long size;

  private NativeMemory(long address, long size) {
    super("native memory", address, Api::plait_java_release, null);
    this.size = size;
  }

  /**
   * Allocates memory.
   *
   * @param bytes how much, 0 or more
   * @return memory that is freed by {@link #close}
   * @throws OutOfMemoryError where there is none
   */
  public static NativeMemory allocate(long bytes) {
    if (bytes < 0) throw new IllegalArgumentException("negative size: " + bytes);
    long address = Api.plait_java_allocate(bytes);
    if (address == 0) throw new OutOfMemoryError(bytes + " bytes of native memory");
    return new NativeMemory(address, bytes);
  }

  /** A copy of bytes. */
  static NativeMemory of(byte[] bytes) {
    NativeMemory memory = allocate(bytes.length);
    memory.head().put(bytes);
    return memory;
  }

  /**
   * How much there is.
   *
   * @return bytes
   */
  public long size() {
    return size;
  }

  /**
   * A view on a part, in native byte order. It must not be used after {@link #close}.
   *
   * @param offset of its first byte
   * @param bytes its length
   * @return a direct buffer upon this memory
   * @throws IndexOutOfBoundsException where that is not within the memory
   */
  public ByteBuffer view(long offset, int bytes) {
    Objects.checkFromIndexSize(offset, (long) bytes, size);
    return get(address -> at(address + offset, bytes));
  }

  /** A view from the first byte on, as long as may be. */
  ByteBuffer head() {
    return view(0, (int) Math.min(size, Integer.MAX_VALUE));
  }

  /** A buffer in native byte order upon memory that somebody else owns. */
  static ByteBuffer at(long address, long bytes) {
    if (bytes > Integer.MAX_VALUE) {
      throw new IllegalArgumentException(bytes + " bytes do not fit into one buffer");
    }
    return Api.plait_java_view(address, bytes).order(ByteOrder.nativeOrder());
  }
}
