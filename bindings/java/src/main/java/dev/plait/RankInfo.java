package dev.plait;

import dev.plait.internal.plait_rank_info;

/**
 * One rank of a candidate: where it stands, what it holds and does.
 *
 * @param tensor tensor coordinate
 * @param pipeline pipeline coordinate
 * @param data data coordinate
 * @param weightBytes weights
 * @param gradientBytes gradients
 * @param optimizerBytes state of the optimizer
 * @param activationBytes saved activations
 * @param communicationBytes buffers of transfers
 * @param workspaceBytes scratch memory
 * @param computeSeconds computing in a step
 * @param communicationSeconds transfers in a step
 * @param bubbleShare idle share of a step
 */
public record RankInfo(long tensor, long pipeline, long data, long weightBytes, long gradientBytes,
    long optimizerBytes, long activationBytes, long communicationBytes, long workspaceBytes,
    double computeSeconds, double communicationSeconds, double bubbleShare) {
  static RankInfo of(plait_rank_info info) {
    return new RankInfo(info.getTensor(), info.getPipeline(), info.getData(),
        info.getWeight_bytes(), info.getGradient_bytes(), info.getOptimizer_bytes(),
        info.getActivation_bytes(), info.getCommunication_bytes(), info.getWorkspace_bytes(),
        info.getCompute_seconds(), info.getCommunication_seconds(), info.getBubble_share());
  }
}
