using Plait.Interop;

namespace Plait
{
    /// <summary>One tensor and kind of an engine or a checkpoint, or one property of the host.</summary>
    public sealed class EntryInfo
    {
        internal EntryInfo(plait_entry_info from)
        {
            Name = from.name;
            HasDigest = (from.valid & Native.PLAIT_ENTRY_DIGEST) != 0;
            if ((from.valid & Native.PLAIT_ENTRY_TENSOR) != 0)
            {
                Kind = (TensorKind)from.kind;
                ElementType = (ElementType)from.dtype;
                var shape = new[] { from.shape0, from.shape1, from.shape2, from.shape3 };
                System.Array.Resize(ref shape, (int)from.dims);
                Shape = shape;
                Elements = from.elements;
                Digest = from.digest;
            }
            if ((from.valid & Native.PLAIT_ENTRY_PROPERTY) != 0)
            {
                PropertyType = (PropertyType)from.type;
                Integer = from.integer;
                Real = from.real;
                Text = from.text;
            }
        }

        /// <summary>Name of the logical tensor or of the property.</summary>
        public string Name { get; private set; }

        /// <summary>What of the parameter; None for a property.</summary>
        public TensorKind Kind { get; private set; }

        /// <summary>Type of the elements; 0 for a property.</summary>
        public ElementType ElementType { get; private set; }

        /// <summary>Sizes, outermost first; null for a property.</summary>
        public long[] Shape { get; private set; }

        /// <summary>Number of elements.</summary>
        public long Elements { get; private set; }

        /// <summary>True where <see cref="Digest"/> is known: in checkpoints whose format has digests.</summary>
        public bool HasDigest { get; private set; }

        /// <summary>Digest of the values, whatever the layout.</summary>
        public long Digest { get; private set; }

        /// <summary>Which of the next three holds the value of a property; None for a tensor.</summary>
        public PropertyType PropertyType { get; private set; }

        /// <summary>Value of an integer property.</summary>
        public long Integer { get; private set; }

        /// <summary>Value of a real property.</summary>
        public double Real { get; private set; }

        /// <summary>Value of a text property.</summary>
        public string Text { get; private set; }
    }
}
