package dev.plait;

import dev.plait.internal.Api;
import dev.plait.internal.plait_key_info;

/**
 * One configuration key. What is absent is "".
 *
 * @param key its name, such as {@code train.global_batch}
 * @param type of the value
 * @param defaultValue the value where none is set
 * @param minimum the least value
 * @param maximum the greatest value
 * @param choices words separated by commas; "" where any text will do
 * @param unit of a number
 * @param doc what it means
 * @param resume "same", "ask" or "free": whether it may differ when a run is resumed
 * @param isMutable whether {@link Engine#set} may change it
 * @param isLocal whether it may differ between processes
 * @param isHostOnly whether only hosts read it
 */
public record KeyInfo(String key, String type, String defaultValue, String minimum, String maximum,
    String choices, String unit, String doc, String resume, boolean isMutable, boolean isLocal,
    boolean isHostOnly) {
  static KeyInfo of(plait_key_info info) {
    long flags = info.getFlags();
    return new KeyInfo(info.getKey(), info.getType(), info.getDefault_value(), info.getMinimum(),
        info.getMaximum(), info.getChoices(), info.getUnit(), info.getDoc(), info.getResume(),
        (flags & Api.PLAIT_KEY_MUTABLE) != 0, (flags & Api.PLAIT_KEY_LOCAL) != 0,
        (flags & Api.PLAIT_KEY_HOST) != 0);
  }
}
