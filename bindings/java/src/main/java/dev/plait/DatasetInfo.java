package dev.plait;

import dev.plait.internal.plait_dataset_info;

/**
 * Sizes of a dataset.
 *
 * @param tokens in all files
 * @param documents in all files
 * @param samples in one epoch
 * @param sequenceLength tokens of a sample, less the one behind
 * @param fingerprint of the content; equal data have equal ones
 */
public record DatasetInfo(long tokens, long documents, long samples, long sequenceLength,
    long fingerprint) {
  static DatasetInfo of(plait_dataset_info info) {
    return new DatasetInfo(info.getTokens(), info.getDocuments(), info.getSamples(),
        info.getSequence_length(), info.getFingerprint());
  }
}
