package dev.plait;

import dev.plait.internal.Api;
import dev.plait.internal.plait_metrics;

/**
 * What one call on an engine measured. Counts are of the whole group, seconds are wall time.
 *
 * @param stopped an orderly stop was asked for: a step is done all the same, an evaluation is not
 * @param hasStep whether step … lossScale are filled; they are equal in every process
 * @param step number of the step, from 1 on
 * @param samplesTotal sequences since the run began
 * @param tokensTotal tokens since the run began
 * @param skippedTotal updates that were not applied since the run began
 * @param tokens since the last update, those of this call included
 * @param targets of these tokens, without those that are masked
 * @param skipped whether the update of this step was not applied
 * @param loss mean negative log-likelihood of a target, in nats
 * @param gradNorm before clipping
 * @param lr learning rate of this step
 * @param lossScale of this step
 * @param hasTime whether stepSeconds … dataSeconds are filled
 * @param stepSeconds duration of the call
 * @param tokensPerSecond of all ranks
 * @param modelFlopsPerSecond operations that the model needs, of all ranks
 * @param forwardSeconds mean over the ranks here
 * @param backwardSeconds mean over the ranks here
 * @param communicationSeconds mean over the ranks here, as far as not hidden behind compute
 * @param optimizerSeconds mean over the ranks here
 * @param bubbleSeconds mean over the ranks here
 * @param dataSeconds mean over the ranks here
 * @param hasMemory whether memoryBytes and memoryPeakBytes are filled
 * @param memoryBytes of the largest rank here
 * @param memoryPeakBytes of the largest rank here
 * @param hasReplicas whether this step compared replicas, and divergedRank is filled
 * @param divergedRank the rank that differs, -1 where none does
 */
public record Metrics(boolean stopped, boolean hasStep, long step, long samplesTotal,
    long tokensTotal, long skippedTotal, long tokens, long targets, boolean skipped, double loss,
    double gradNorm, double lr, double lossScale, boolean hasTime, double stepSeconds,
    double tokensPerSecond, double modelFlopsPerSecond, double forwardSeconds,
    double backwardSeconds, double communicationSeconds, double optimizerSeconds,
    double bubbleSeconds, double dataSeconds, boolean hasMemory, long memoryBytes,
    long memoryPeakBytes, boolean hasReplicas, long divergedRank) {
  static Metrics of(int code, plait_metrics m) {
    long valid = m.getValid();
    return new Metrics(code == Code.STOPPED, (valid & Api.PLAIT_METRICS_STEP) != 0, m.getStep(),
        m.getSamples_total(), m.getTokens_total(), m.getSkipped_total(), m.getTokens(),
        m.getTargets(), m.getSkipped() != 0, m.getLoss(), m.getGrad_norm(), m.getLr(),
        m.getLoss_scale(), (valid & Api.PLAIT_METRICS_TIME) != 0, m.getStep_seconds(),
        m.getTokens_per_second(), m.getModel_flops_per_second(), m.getForward_seconds(),
        m.getBackward_seconds(), m.getCommunication_seconds(), m.getOptimizer_seconds(),
        m.getBubble_seconds(), m.getData_seconds(), (valid & Api.PLAIT_METRICS_MEMORY) != 0,
        m.getMemory_bytes(), m.getMemory_peak_bytes(), (valid & Api.PLAIT_METRICS_REPLICAS) != 0,
        m.getDiverged_rank());
  }
}
