package dev.plait;

import dev.plait.internal.plait_plan_info;

/**
 * One candidate of a plan.
 *
 * @param isFeasible whether it fits
 * @param tensor tensor-parallel degree
 * @param pipeline pipeline-parallel degree
 * @param data data-parallel degree
 * @param interleave model chunks of a pipeline rank
 * @param zero ZeRO stage
 * @param microBatch sequences of a micro-batch
 * @param memoryBytes what the largest rank needs
 * @param memoryLimitBytes what it may have
 * @param stepSeconds duration of a step
 * @param tokensPerSecond of all ranks
 * @param bubbleShare idle share of a step
 * @param modelFlopsShare share of the devices' peak
 * @param reason why it was rejected, "" where it was not
 */
public record PlanInfo(boolean isFeasible, long tensor, long pipeline, long data, long interleave,
    long zero, long microBatch, long memoryBytes, long memoryLimitBytes, double stepSeconds,
    double tokensPerSecond, double bubbleShare, double modelFlopsShare, String reason) {
  static PlanInfo of(plait_plan_info info) {
    return new PlanInfo(info.getIs_feasible() != 0, info.getTensor(), info.getPipeline(),
        info.getData(), info.getInterleave(), info.getZero(), info.getMicro_batch(),
        info.getMemory_bytes(), info.getMemory_limit_bytes(), info.getStep_seconds(),
        info.getTokens_per_second(), info.getBubble_share(), info.getModel_flops_share(),
        info.getReason());
  }
}
