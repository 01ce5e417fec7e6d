package dev.plait;

import dev.plait.internal.Api;
import java.time.Duration;

/**
 * Which ranks this process drives, and how the processes meet. A group whose ranks are all here is
 * complete at once; for it, {@link #commit} and {@link #joinTcp} do nothing.
 */
public final class Group extends Handle {
  private Group(long address) {
    super("group", address, Api::plait_group_free, Api::plait_group_abort);
  }

  /**
   * Makes a group.
   *
   * @param context what it hangs on
   * @param config is copied
   * @param rank the first rank of this process
   * @param localRanks how many this process drives
   * @param world how many there are in all
   * @return a new group
   * @throws PlaitException.InvalidArgument with the word topology for numbers that do not fit
   */
  public static Group create(Context context, Config config, int rank, int localRanks, int world) {
    return new Group(context.number(c -> config.number(
        keys -> Api.plait_group_create(c, keys, rank, localRanks, world))));
  }

  /**
   * What the other processes need to know of this one. Hand it to them by any means.
   *
   * @return at most 4096 bytes
   */
  public byte[] card() {
    return get(Api::plait_group_card);
  }

  /**
   * Adds the card of one process; in any order, the own one too.
   *
   * @param card what {@link #card} gave there
   */
  public void addCard(byte[] card) {
    try (NativeMemory copy = NativeMemory.of(card)) {
      run(group -> Api.plait_group_add_card(group, copy.head(), copy.size()));
    }
  }

  /**
   * Connects to all processes whose cards were added. Every process calls it.
   *
   * @param limit of this call, or null
   */
  public void commit(Duration limit) {
    long timeout = Timeouts.milliseconds(limit);
    run(group -> Api.plait_group_commit(group, timeout));
  }

  /**
   * Exchanges cards by TCP and connects. The process of rank 0 listens, the others call it; the key
   * {@code network.token} keeps strangers out. Every process calls it.
   *
   * @param address host:port
   * @param limit of this call, or null
   */
  public void joinTcp(String address, Duration limit) {
    long timeout = Timeouts.milliseconds(limit);
    run(group -> Api.plait_group_join_tcp(group, address, timeout));
  }

  /**
   * Measures the machine for the planner. Every process calls it.
   *
   * @param what "links", "compute" or "all"
   * @param limit of this call, or null
   * @return JSON that {@link Config#load} takes; null where it was stopped
   */
  public String measure(String what, Duration limit) {
    long timeout = Timeouts.milliseconds(limit);
    return get(group -> Api.plait_group_measure(group, what, timeout));
  }

  /** Ends a call that waits in another thread: it throws {@link PlaitException.Aborted}. */
  public void abort() {
    run(Api::plait_group_abort);
  }
}
