/**
 * Plait trains GPT-style Transformers inside a JVM. A run hangs on a {@link dev.plait.Context}: a
 * {@link dev.plait.Config} says what to train, a {@link dev.plait.Group} which ranks this process
 * drives, an {@link dev.plait.Engine} trains on a {@link dev.plait.Batch} or a
 * {@link dev.plait.Dataset}, and saves and loads checkpoints.
 *
 * <p><b>Lifetimes.</b> Every object here that is {@link java.lang.AutoCloseable} owns native memory.
 * It may be closed in any order, twice, and by any thread; after that, each of its methods throws
 * {@link java.lang.IllegalStateException}. An object that another thread is using is freed when that
 * call returns, which closing an engine or a group hastens by aborting it. Nothing is freed by the
 * garbage collector: an object that was forgotten is reported, once it is unreachable, to the system
 * logger {@code dev.plait}, and its native memory stays. Buffers upon native memory
 * ({@link dev.plait.Batch#map}, {@link dev.plait.Checkpoint#map}, {@link dev.plait.NativeMemory#view})
 * must not be touched after the object that gave them was closed: no Java code can prevent that.
 *
 * <p><b>Threads.</b> Any thread may call any method. Two calls at once that exclude each other, such as
 * two steps of one engine, are refused as {@code FAILED_PRECONDITION} with the word {@code busy}. The
 * library's own threads never enter the JVM: logs are fetched by {@link dev.plait.Context#drainLogs},
 * progress by {@link dev.plait.Operation#progress}.
 *
 * <p><b>Errors.</b> What the library refuses or fails at is a {@link dev.plait.PlaitException}, which is
 * unchecked, since nearly every call may fail and few places can do anything about it. An orderly stop
 * is no error: {@link dev.plait.Metrics#stopped} says so, or a result is null.
 *
 * <p><b>Time limits.</b> A {@link java.time.Duration} limits one call; null sets no limit besides those
 * that are configured ({@code timeout.*}), so that no call waits for ever. Duration zero is refused but
 * by {@link dev.plait.Operation#await}, which then only looks.
 */
package dev.plait;
