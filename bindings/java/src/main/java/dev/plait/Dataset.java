package dev.plait;

import dev.plait.internal.Api;
import dev.plait.internal.plait_dataset_info;

/** Token files in training order. */
public final class Dataset extends Handle {
  private Dataset(long address) {
    super("dataset", address, Api::plait_dataset_free, null);
  }

  /**
   * Opens the files that a configuration names.
   *
   * @param context what it hangs on
   * @param config with data.train or data.evaluate
   * @param role "train" or "evaluate"
   * @return an open dataset
   * @throws PlaitException.DataLoss where a file is damaged
   */
  public static Dataset open(Context context, Config config, String role) {
    return new Dataset(
        context.number(c -> config.number(keys -> Api.plait_dataset_open(c, keys, role))));
  }

  /**
   * Describes the dataset.
   *
   * @return sizes and fingerprint
   */
  public DatasetInfo describe() {
    return get(dataset -> {
      try (plait_dataset_info info = new plait_dataset_info()) {
        Api.plait_dataset_describe(dataset, info);
        return DatasetInfo.of(info);
      }
    });
  }

  /**
   * Reads samples.
   *
   * @param name "tokens" or "documents"
   * @param firstSample the first one
   * @param count how many
   * @return ids [count, sequence length + 1], row-major
   */
  public int[] read(String name, long firstSample, long count) {
    return get(dataset -> Api.plait_dataset_read(dataset, name, firstSample, count));
  }
}
