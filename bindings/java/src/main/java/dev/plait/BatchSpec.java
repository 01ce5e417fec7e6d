package dev.plait;

import dev.plait.internal.Api;
import dev.plait.internal.plait_batch_spec;

/**
 * What the next step wants to be fed.
 *
 * @param globalRows rows of the global batch
 * @param localRows those that this process supplies in a local batch
 * @param spanCount in how many runs
 * @param sequenceLength tokens of a sequence
 * @param vocabSize tokens are less than that
 * @param firstSample index of the sequence in global row 0, from the beginning of the run
 * @param needsTokens whether this process must supply tokens
 * @param needsTargets whether it must supply targets, where they are used
 * @param needsDocuments whether it must supply documents, where they are used
 */
public record BatchSpec(long globalRows, long localRows, long spanCount, long sequenceLength,
    long vocabSize, long firstSample, boolean needsTokens, boolean needsTargets,
    boolean needsDocuments) {
  static BatchSpec of(plait_batch_spec spec) {
    long needs = spec.getNeeds();
    return new BatchSpec(spec.getGlobal_rows(), spec.getLocal_rows(), spec.getSpan_count(),
        spec.getSequence_length(), spec.getVocab_size(), spec.getFirst_sample(),
        (needs & Api.PLAIT_NEEDS_TOKENS) != 0, (needs & Api.PLAIT_NEEDS_TARGETS) != 0,
        (needs & Api.PLAIT_NEEDS_DOCUMENTS) != 0);
  }
}
