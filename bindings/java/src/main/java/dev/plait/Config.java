package dev.plait;

import dev.plait.internal.Api;
import dev.plait.internal.Utf8;
import dev.plait.internal.plait_key_info;
import java.util.ArrayList;
import java.util.List;

/** Dotted keys to text. What is made from a configuration takes a copy of it. */
public final class Config extends Handle {
  private Config(long address) {
    super("configuration", address, Api::plait_config_free, null);
  }

  /**
   * Makes a configuration with every key at its default.
   *
   * @param context what it hangs on
   * @return a new configuration
   */
  public static Config create(Context context) {
    return new Config(context.number(Api::plait_config_create));
  }

  /**
   * Sets a key.
   *
   * @param key such as {@code train.global_batch}
   * @param value its text; null goes back to the default
   * @throws PlaitException.InvalidArgument for an unknown key, naming the nearest known one, and for a
   *     value out of range
   */
  public void set(String key, String value) {
    run(config -> Api.plait_config_set(config, key, value));
  }

  /**
   * The value in effect.
   *
   * @param key such as {@code train.global_batch}
   * @return what was set, else the default
   */
  public String get(String key) {
    return get(config -> Api.plait_config_get(config, key));
  }

  /**
   * Merges a JSON object, all of it or, with an exception, nothing. Nested objects and dotted keys mean
   * the same.
   *
   * @param json the text of the object
   */
  public void load(String json) {
    try (NativeMemory copy = NativeMemory.of(Utf8.encode(json))) {
      run(config -> Api.plait_config_load(config, copy.head(), copy.size()));
    }
  }

  /**
   * Sets the keys {@code model.*} from a Hugging Face directory of the GPT-2 or Llama family.
   *
   * @param directory that holds config.json
   */
  public void loadHuggingFace(String directory) {
    run(config -> Api.plait_config_load_hf(config, directory));
  }

  /**
   * The configuration as a JSON object of dotted keys; network.token is left out.
   *
   * @param isComplete true: with the defaults of all keys, false: what was set
   * @return the text of the object
   */
  public String dump(boolean isComplete) {
    return get(config -> Api.plait_config_dump(config, isComplete ? 1 : 0));
  }

  /** Checks every rule between keys. Needs no device. */
  public void check() {
    run(Api::plait_config_check);
  }

  /**
   * The table of all keys, such as for a form.
   *
   * @return every key, in the order of the table
   */
  public List<KeyInfo> keys() {
    return get(config -> {
      List<KeyInfo> keys = new ArrayList<>();
      try (plait_key_info info = new plait_key_info()) {
        for (long i = 0; i < Api.plait_config_key_count(config); i++) {
          Api.plait_config_key_at(config, i, info);
          keys.add(KeyInfo.of(info));
        }
      }
      return List.copyOf(keys);
    });
  }
}
