using System;
using Plait.Interop;

namespace Plait
{
    /// <summary>Token files of the configuration, in training order. Any thread may call.</summary>
    public sealed class Dataset : IDisposable
    {
        /// <summary>Opens the files of data.train (role "train") or data.evaluate ("evaluate").</summary>
        /// <exception cref="PlaitException">DataLoss/dataset_…: a file is damaged.</exception>
        public Dataset(Context context, Config config, string role)
        {
            DatasetHandle handle;
            Native.plait_dataset_open(Arguments.Required(context, "context").Handle,
                Arguments.Required(config, "config").Handle, role, out handle);
            Handle = handle;
        }

        internal DatasetHandle Handle { get; private set; }

        /// <summary>Sizes and fingerprint.</summary>
        public DatasetInfo Describe()
        {
            using (var info = new plait_dataset_info())
            {
                Native.plait_dataset_describe(Handle, info);
                return new DatasetInfo(info);
            }
        }

        /// <summary>
        /// Samples <paramref name="firstSample"/> … <paramref name="firstSample"/> + <paramref name="count"/> - 1
        /// of "tokens" or "documents": <paramref name="count"/> rows of sequence length + 1.
        /// </summary>
        public int[] Read(string name, long firstSample, long count)
        {
            int[] values;
            Native.plait_dataset_read(Handle, name, firstSample, count, out values);
            return values;
        }

        /// <summary>Frees the handle; an engine that it is attached to keeps it. A second call does nothing.</summary>
        public void Dispose()
        {
            Handle.Dispose();
        }
    }

    /// <summary>Sizes of a dataset.</summary>
    public sealed class DatasetInfo
    {
        internal DatasetInfo(plait_dataset_info from)
        {
            Tokens = from.tokens;
            Documents = from.documents;
            Samples = from.samples;
            SequenceLength = from.sequence_length;
            Fingerprint = from.fingerprint;
        }

        /// <summary>Tokens in all files.</summary>
        public long Tokens { get; private set; }

        /// <summary>Documents in all files.</summary>
        public long Documents { get; private set; }

        /// <summary>Samples in one epoch.</summary>
        public long Samples { get; private set; }

        /// <summary>Targets of a sample.</summary>
        public long SequenceLength { get; private set; }

        /// <summary>What tells this dataset from others when a run is resumed.</summary>
        public long Fingerprint { get; private set; }
    }
}
