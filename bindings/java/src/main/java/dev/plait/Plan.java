package dev.plait;

import dev.plait.internal.Api;
import dev.plait.internal.plait_plan_info;
import dev.plait.internal.plait_rank_info;

/** Layouts for a number of ranks, the best one first and rejected ones last. Needs no device. */
public final class Plan extends Handle {
  private Plan(long address) {
    super("plan", address, Api::plait_plan_free, null);
  }

  /**
   * Makes a plan: of one candidate where the degrees of {@code layout.*} are numbers, of all that there
   * are where they are {@code auto}.
   *
   * @param context what it hangs on
   * @param config model, training and hardware
   * @param world number of ranks
   * @return a new plan
   */
  public static Plan create(Context context, Config config, int world) {
    return new Plan(
        context.number(c -> config.number(keys -> Api.plait_plan_create(c, keys, world))));
  }

  /**
   * How many candidates there are.
   *
   * @return a number; candidates are counted from 0
   */
  public long count() {
    return number(Api::plait_plan_count);
  }

  /**
   * Describes a candidate.
   *
   * @param index of the candidate
   * @return its layout and what it costs
   */
  public PlanInfo at(long index) {
    return get(plan -> {
      try (plait_plan_info info = new plait_plan_info()) {
        Api.plait_plan_at(plan, index, info);
        return PlanInfo.of(info);
      }
    });
  }

  /**
   * Describes one rank of a candidate.
   *
   * @param index of the candidate
   * @param rank from 0 on
   * @return where it stands, what it holds and does
   */
  public RankInfo rankAt(long index, int rank) {
    return get(plan -> {
      try (plait_rank_info info = new plait_rank_info()) {
        Api.plait_plan_rank_at(plan, index, rank, info);
        return RankInfo.of(info);
      }
    });
  }

  /**
   * A text about a candidate.
   *
   * @param index of the candidate
   * @param kind "reasons", "estimate", "memory", "schedule" or "timeline" (a Chrome trace)
   * @return the text
   */
  public String report(long index, String kind) {
    return get(plan -> Api.plait_plan_report(plan, index, kind));
  }

  /**
   * Writes the keys {@code layout.*} of a candidate.
   *
   * @param index of the candidate
   * @param config that takes them
   */
  public void apply(long index, Config config) {
    run(plan -> config.run(keys -> Api.plait_plan_apply(plan, index, keys)));
  }
}
