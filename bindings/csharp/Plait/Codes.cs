using System;
using Plait.Interop;

namespace Plait
{
    /// <summary>
    /// What kind of error a call ended with. A newer library may use numbers that are not named here.
    /// </summary>
    public enum Code
    {
        /// <summary>No error.</summary>
        Ok = Native.PLAIT_OK,
        /// <summary>The operation was cancelled.</summary>
        Cancelled = Native.PLAIT_CANCELLED,
        /// <summary>None of the others.</summary>
        Unknown = Native.PLAIT_UNKNOWN,
        /// <summary>The call is wrong; nothing happened.</summary>
        InvalidArgument = Native.PLAIT_INVALID_ARGUMENT,
        /// <summary>It took longer than was allowed.</summary>
        DeadlineExceeded = Native.PLAIT_DEADLINE_EXCEEDED,
        /// <summary>A file or an entry is not there.</summary>
        NotFound = Native.PLAIT_NOT_FOUND,
        /// <summary>What should be made is there already.</summary>
        AlreadyExists = Native.PLAIT_ALREADY_EXISTS,
        /// <summary>The system refuses access.</summary>
        PermissionDenied = Native.PLAIT_PERMISSION_DENIED,
        /// <summary>Memory, disk or another resource is used up.</summary>
        ResourceExhausted = Native.PLAIT_RESOURCE_EXHAUSTED,
        /// <summary>The call is right but cannot be done in this state.</summary>
        FailedPrecondition = Native.PLAIT_FAILED_PRECONDITION,
        /// <summary>The engine or the group was aborted.</summary>
        Aborted = Native.PLAIT_ABORTED,
        /// <summary>A value left its range, such as a loss that is no number.</summary>
        OutOfRange = Native.PLAIT_OUT_OF_RANGE,
        /// <summary>The library, or this build of it, cannot do that.</summary>
        Unimplemented = Native.PLAIT_UNIMPLEMENTED,
        /// <summary>A fault in the library.</summary>
        Internal = Native.PLAIT_INTERNAL,
        /// <summary>Something needed is not reachable at the moment.</summary>
        Unavailable = Native.PLAIT_UNAVAILABLE,
        /// <summary>Stored data is damaged.</summary>
        DataLoss = Native.PLAIT_DATA_LOSS,
        /// <summary>Another process did not prove that it belongs to the group.</summary>
        Unauthenticated = Native.PLAIT_UNAUTHENTICATED,
        /// <summary>A callback of the host failed.</summary>
        HostError = Native.PLAIT_HOST_ERROR,
        /// <summary>Another process died or froze.</summary>
        PeerLost = Native.PLAIT_PEER_LOST,
        /// <summary>A stop that was asked for took effect; no error.</summary>
        Stopped = Native.PLAIT_STOPPED
    }

    /// <summary>What an error left behind, and so what to do next.</summary>
    public enum Disposition
    {
        /// <summary>Nothing happened; correct the call.</summary>
        Unchanged = Native.PLAIT_DISPOSITION_UNCHANGED,
        /// <summary>Nothing happened; the same call may succeed later.</summary>
        Retry = Native.PLAIT_DISPOSITION_RETRY,
        /// <summary>Dispose of engine and group, then make new ones.</summary>
        EngineLost = Native.PLAIT_DISPOSITION_ENGINE_LOST,
        /// <summary>Device or memory cannot be repaired in this process.</summary>
        ProcessLost = Native.PLAIT_DISPOSITION_PROCESS_LOST
    }

    /// <summary>State of an <see cref="Engine"/>.</summary>
    public enum EngineState
    {
        /// <summary>It waits for a call.</summary>
        Ready = Native.PLAIT_ENGINE_READY,
        /// <summary>A call is in progress.</summary>
        Running = Native.PLAIT_ENGINE_RUNNING,
        /// <summary>An error or an abort ended it.</summary>
        Lost = Native.PLAIT_ENGINE_LOST,
        /// <summary>It was closed.</summary>
        Closed = Native.PLAIT_ENGINE_CLOSED
    }

    /// <summary>State of an <see cref="Operation"/>.</summary>
    public enum OperationState
    {
        /// <summary>It is at work.</summary>
        Running = Native.PLAIT_OP_RUNNING,
        /// <summary>It succeeded.</summary>
        Done = Native.PLAIT_OP_DONE,
        /// <summary>It failed; <see cref="Operation.Wait"/> says why.</summary>
        Failed = Native.PLAIT_OP_FAILED,
        /// <summary>It was cancelled.</summary>
        Cancelled = Native.PLAIT_OP_CANCELLED
    }

    /// <summary>How much a log record matters.</summary>
    public enum LogLevel
    {
        /// <summary>Something failed.</summary>
        Error = Native.PLAIT_LOG_ERROR,
        /// <summary>Something that a person should look at.</summary>
        Warning = Native.PLAIT_LOG_WARNING,
        /// <summary>What happens now and then; the level at the start.</summary>
        Info = Native.PLAIT_LOG_INFO,
        /// <summary>For the search for a fault.</summary>
        Debug = Native.PLAIT_LOG_DEBUG,
        /// <summary>Everything.</summary>
        Trace = Native.PLAIT_LOG_TRACE
    }

    /// <summary>Whose rows a <see cref="Batch"/> holds.</summary>
    public enum BatchScope
    {
        /// <summary>All rows of the group, in global order.</summary>
        Global = Native.PLAIT_BATCH_GLOBAL,
        /// <summary>The rows of <see cref="Engine.BatchSpan"/>.</summary>
        Local = Native.PLAIT_BATCH_LOCAL
    }

    /// <summary>What this process must supply for the next step.</summary>
    [Flags]
    public enum Needs : long
    {
        /// <summary>Nothing; the batch may be null.</summary>
        None = 0,
        /// <summary>"tokens".</summary>
        Tokens = Native.PLAIT_NEEDS_TOKENS,
        /// <summary>"targets", where they are used.</summary>
        Targets = Native.PLAIT_NEEDS_TARGETS,
        /// <summary>"documents", where they are used.</summary>
        Documents = Native.PLAIT_NEEDS_DOCUMENTS
    }

    /// <summary>What of a parameter is meant.</summary>
    public enum TensorKind
    {
        /// <summary>A property of the host: no tensor.</summary>
        None = 0,
        /// <summary>The weights that the passes use.</summary>
        Parameter = Native.PLAIT_KIND_PARAM,
        /// <summary>The float32 weights that the optimizer updates.</summary>
        Master = Native.PLAIT_KIND_MASTER,
        /// <summary>The optimizer's mean of gradients.</summary>
        Moment1 = Native.PLAIT_KIND_MOMENT1,
        /// <summary>The optimizer's mean of squared gradients.</summary>
        Moment2 = Native.PLAIT_KIND_MOMENT2,
        /// <summary>Further state.</summary>
        Extra = Native.PLAIT_KIND_EXTRA,
        /// <summary>The gradient; of live engines alone.</summary>
        Gradient = Native.PLAIT_KIND_GRADIENT
    }

    /// <summary>Type of the elements of a tensor.</summary>
    public enum ElementType
    {
        /// <summary>IEEE single precision.</summary>
        Float32 = Native.PLAIT_DTYPE_FLOAT32,
        /// <summary>The upper half of a float32.</summary>
        BFloat16 = Native.PLAIT_DTYPE_BFLOAT16,
        /// <summary>IEEE half precision.</summary>
        Float16 = Native.PLAIT_DTYPE_FLOAT16,
        /// <summary>32-bit integers.</summary>
        Int32 = Native.PLAIT_DTYPE_INT32,
        /// <summary>64-bit integers.</summary>
        Int64 = Native.PLAIT_DTYPE_INT64,
        /// <summary>Bytes.</summary>
        UInt8 = Native.PLAIT_DTYPE_UINT8
    }

    /// <summary>Which value a property holds.</summary>
    public enum PropertyType
    {
        /// <summary>A tensor: no property.</summary>
        None = 0,
        /// <summary><see cref="EntryInfo.Integer"/>.</summary>
        Integer = Native.PLAIT_PROPERTY_INTEGER,
        /// <summary><see cref="EntryInfo.Real"/>.</summary>
        Real = Native.PLAIT_PROPERTY_REAL,
        /// <summary><see cref="EntryInfo.Text"/>.</summary>
        Text = Native.PLAIT_PROPERTY_TEXT
    }

    /// <summary>What is special about a configuration key.</summary>
    [Flags]
    public enum KeyFlags : long
    {
        /// <summary>Nothing.</summary>
        None = 0,
        /// <summary><see cref="Engine.Set"/> may change it.</summary>
        Mutable = Native.PLAIT_KEY_MUTABLE,
        /// <summary>Processes may differ in it.</summary>
        Local = Native.PLAIT_KEY_LOCAL,
        /// <summary>Read by hosts alone.</summary>
        Host = Native.PLAIT_KEY_HOST
    }

    /// <summary>Which groups of numbers a <see cref="Metrics"/> holds.</summary>
    [Flags]
    public enum MetricsParts : long
    {
        /// <summary>None: the call was stopped without effect.</summary>
        None = 0,
        /// <summary><see cref="Metrics.Step"/> to <see cref="Metrics.LossScale"/>; equal in every process.</summary>
        Step = Native.PLAIT_METRICS_STEP,
        /// <summary><see cref="Metrics.StepSeconds"/> to <see cref="Metrics.DataSeconds"/>.</summary>
        Time = Native.PLAIT_METRICS_TIME,
        /// <summary><see cref="Metrics.MemoryBytes"/> and <see cref="Metrics.MemoryPeakBytes"/>.</summary>
        Memory = Native.PLAIT_METRICS_MEMORY,
        /// <summary><see cref="Metrics.DivergedRank"/>; on steps that checked.</summary>
        Replicas = Native.PLAIT_METRICS_REPLICAS
    }
}
