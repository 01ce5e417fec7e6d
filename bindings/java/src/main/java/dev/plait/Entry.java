package dev.plait;

import dev.plait.internal.Api;
import dev.plait.internal.plait_entry_info;
import java.util.Arrays;
import java.util.List;

/**
 * A tensor of an engine or checkpoint, or a property of the host.
 *
 * @param name of the logical tensor or property
 * @param kind one of {@link Kind}; 0 for a property
 * @param dataType one of {@link DataType}; 0 for a property
 * @param shape outermost dimension first
 * @param elements how many there are
 * @param hasDigest whether digest is filled: in checkpoints
 * @param digest of the content
 * @param value of a property: a Long, Double or String; null for a tensor
 */
public record Entry(String name, int kind, int dataType, List<Long> shape, long elements,
    boolean hasDigest, long digest, Object value) {
  static Entry of(plait_entry_info info) {
    long valid = info.getValid();
    List<Long> shape = Arrays.asList(
        info.getShape0(), info.getShape1(), info.getShape2(), info.getShape3());
    return new Entry(info.getName(), (int) info.getKind(), (int) info.getDtype(),
        List.copyOf(shape.subList(0, (int) info.getDims())), info.getElements(),
        (valid & Api.PLAIT_ENTRY_DIGEST) != 0, info.getDigest(),
        (valid & Api.PLAIT_ENTRY_PROPERTY) != 0 ? property(info) : null);
  }

  private static Object property(plait_entry_info info) {
    if (info.getType() == Api.PLAIT_PROPERTY_INTEGER) return info.getInteger();
    if (info.getType() == Api.PLAIT_PROPERTY_REAL) return info.getReal();
    return info.getText();
  }
}
