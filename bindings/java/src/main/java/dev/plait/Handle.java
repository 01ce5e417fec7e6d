package dev.plait;

import java.lang.ref.Cleaner;
import java.lang.ref.Reference;
import java.util.function.LongConsumer;
import java.util.function.LongFunction;
import java.util.function.LongUnaryOperator;

/** What owns native memory: it is closed once, and freed when no call is in it any more. */
abstract class Handle implements AutoCloseable {
  private static final Cleaner WATCH = Cleaner.create();

  private final Owner owner;
  private final Cleaner.Cleanable watched;

  /**
   * @param type what a message calls it
   * @param address of the native object, which is this object's from now on
   * @param free frees it; no method of an instance, which would keep that reachable
   * @param interrupt ends the calls that run in it, or null where they end by themselves
   */
  Handle(String type, long address, LongConsumer free, LongConsumer interrupt) {
    owner = new Owner(type, address, free, interrupt);
    watched = WATCH.register(this, owner);
  }

  /**
   * Frees the native object. Closing again does nothing. While other threads are in calls on this
   * object, it is freed as the last of them returns; calls that begin later are refused.
   */
  @Override
  public final void close() {
    owner.close();
    watched.clean();
  }

  /**
   * Tells whether this object was closed.
   *
   * @return true from the first {@link #close} on
   */
  public final boolean isClosed() {
    return owner.isClosed();
  }

  /** A call with the address; {@code this} stays reachable until it has returned. */
  final void run(LongConsumer call) {
    long address = owner.enter();
    try {
      call.accept(address);
    } finally {
      owner.leave();
      Reference.reachabilityFence(this);
    }
  }

  final <T> T get(LongFunction<T> call) {
    long address = owner.enter();
    try {
      return call.apply(address);
    } finally {
      owner.leave();
      Reference.reachabilityFence(this);
    }
  }

  final long number(LongUnaryOperator call) {
    long address = owner.enter();
    try {
      return call.applyAsLong(address);
    } finally {
      owner.leave();
      Reference.reachabilityFence(this);
    }
  }

  /** As {@link #number}, with address 0 for a handle that is null. */
  static long number(Handle handle, LongUnaryOperator call) {
    return handle == null ? call.applyAsLong(0) : handle.number(call);
  }

  /** The native side. The Cleaner holds it, so it must not refer to the Handle. */
  private static final class Owner implements Runnable {
    private static final System.Logger LOG = System.getLogger("dev.plait");

    private final String type;
    private final long address;
    private final LongConsumer free;
    private final LongConsumer interrupt;
    private int users;
    private boolean isClosed;

    Owner(String type, long address, LongConsumer free, LongConsumer interrupt) {
      this.type = type;
      this.address = address;
      this.free = free;
      this.interrupt = interrupt;
    }

    synchronized long enter() {
      if (isClosed) throw new IllegalStateException("the " + type + " is closed");
      users++;
      return address;
    }

    void leave() {
      boolean isLast;
      synchronized (this) {
        users--;
        isLast = isClosed && users == 0;
      }
      if (isLast) free.accept(address);
    }

    void close() {
      boolean isIdle;
      synchronized (this) {
        if (isClosed) return;
        isClosed = true;
        isIdle = users == 0;
        // Within the lock: the last user frees.
        if (!isIdle && interrupt != null) interrupt.accept(address);
      }
      if (isIdle) free.accept(address);
    }

    synchronized boolean isClosed() {
      return isClosed;
    }

    /** Runs once, after close or when the Handle is unreachable; then it only reports. */
    @Override
    public void run() {
      if (isClosed()) return;
      LOG.log(System.Logger.Level.WARNING,
          "{0} was never closed: its native memory stays until the process ends", type);
    }
  }
}
