using System;
using System.Runtime.InteropServices;

namespace Plait.Interop
{
    // A native handle. The runtime counts the calls that use it and frees it after the last one, so that a
    // Dispose on another thread, or the finalizer, never pulls it from under a call.
    internal abstract class NativeHandle : SafeHandle
    {
        protected NativeHandle() : base(IntPtr.Zero, true) { }

        public override bool IsInvalid
        {
            get { return handle == IntPtr.Zero; }
        }

        protected sealed override bool ReleaseHandle()
        {
            Release(handle);
            return true;
        }

        protected abstract void Release(IntPtr freed);
    }

    internal sealed class ContextHandle : NativeHandle
    {
        protected override void Release(IntPtr freed) { Native.plait_context_release(freed); }
    }

    internal sealed class ConfigHandle : NativeHandle
    {
        public static readonly ConfigHandle Null = new ConfigHandle();

        protected override void Release(IntPtr freed) { Native.plait_config_release(freed); }
    }

    internal sealed class PlanHandle : NativeHandle
    {
        protected override void Release(IntPtr freed) { Native.plait_plan_release(freed); }
    }

    internal sealed class GroupHandle : NativeHandle
    {
        protected override void Release(IntPtr freed) { Native.plait_group_release(freed); }
    }

    internal sealed class EngineHandle : NativeHandle
    {
        protected override void Release(IntPtr freed) { Native.plait_engine_release(freed); }
    }

    internal sealed class BatchHandle : NativeHandle
    {
        public static readonly BatchHandle Null = new BatchHandle();

        protected override void Release(IntPtr freed) { Native.plait_batch_release(freed); }
    }

    internal sealed class DatasetHandle : NativeHandle
    {
        public static readonly DatasetHandle Null = new DatasetHandle();

        protected override void Release(IntPtr freed) { Native.plait_dataset_release(freed); }
    }

    internal sealed class TokenizerHandle : NativeHandle
    {
        protected override void Release(IntPtr freed) { Native.plait_tokenizer_release(freed); }
    }

    internal sealed class CheckpointHandle : NativeHandle
    {
        protected override void Release(IntPtr freed) { Native.plait_checkpoint_release(freed); }
    }

    internal sealed class OperationHandle : NativeHandle
    {
        protected override void Release(IntPtr freed) { Native.plait_op_release(freed); }
    }
}
