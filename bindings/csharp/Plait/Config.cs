using System;
using System.Collections.Generic;
using System.Runtime.InteropServices;
using Plait.Interop;

namespace Plait
{
    /// <summary>
    /// A configuration: dotted keys to text. What is made from it copies it. One call at a time.
    /// </summary>
    public sealed class Config : IDisposable
    {
        /// <summary>A configuration with every key at its default.</summary>
        public Config(Context context)
        {
            ConfigHandle handle;
            Native.plait_config_create(Arguments.Required(context, "context").Handle, out handle);
            Handle = handle;
        }

        internal ConfigHandle Handle { get; private set; }

        internal static ConfigHandle Optional(Config config)
        {
            return config == null ? ConfigHandle.Null : config.Handle;
        }

        /// <summary>
        /// The effective value of a key: the one set, else the default. Null goes back to the default.
        /// </summary>
        /// <exception cref="PlaitException">
        /// InvalidArgument/argument: the key is unknown (the nearest known one is named), or the value is outside
        /// its range.
        /// </exception>
        public string this[string key]
        {
            get
            {
                string value;
                Native.plait_config_get(Handle, key, out value);
                return value;
            }
            set { Native.plait_config_set(Handle, key, value); }
        }

        /// <summary>
        /// Merges a JSON object; nested objects and dotted keys mean the same. All of it is taken or, on an error,
        /// none.
        /// </summary>
        public void Load(string json)
        {
            byte[] bytes = Utf8.Bytes(Arguments.Required(json, "json"));
            Load(new ReadOnlySpan<byte>(bytes, 0, bytes.Length - 1));
        }

        /// <summary>As <see cref="Load(string)"/>, from UTF-8.</summary>
        public unsafe void Load(ReadOnlySpan<byte> json)
        {
            fixed (byte* begin = &MemoryMarshal.GetReference(json))
            {
                Native.plait_config_load(Handle, (IntPtr)begin, json.Length);
            }
        }

        /// <summary>
        /// Sets the model.* keys from config.json of a Hugging Face directory of the GPT-2 or Llama family.
        /// </summary>
        /// <exception cref="PlaitException">
        /// Unimplemented/unsupported_model: the library cannot express it; the details name the field.
        /// </exception>
        public void LoadHuggingFace(string directory)
        {
            Native.plait_config_load_hf(Handle, directory);
        }

        /// <summary>
        /// The configuration as a JSON object of dotted keys: those that were set or, where
        /// <paramref name="isComplete"/>, all of them. network.token is left out.
        /// </summary>
        public string Dump(bool isComplete = false)
        {
            string json;
            Native.plait_config_dump(Handle, isComplete ? 1 : 0, out json);
            return json;
        }

        /// <summary>Checks every rule between keys (divisibility and so on). Needs no device.</summary>
        public void Check()
        {
            Native.plait_config_check(Handle);
        }

        /// <summary>Describes all keys that exist, in the order of the library's table.</summary>
        public IReadOnlyList<KeyInfo> DescribeKeys()
        {
            var keys = new List<KeyInfo>();
            long count = Native.plait_config_key_count(Handle);
            using (var info = new plait_key_info())
            {
                for (long index = 0; index < count; ++index)
                {
                    Native.plait_config_key_at(Handle, index, info);
                    keys.Add(new KeyInfo(info));
                }
            }
            return keys;
        }

        /// <summary>Frees the handle. A second call does nothing.</summary>
        public void Dispose()
        {
            Handle.Dispose();
        }
    }

    /// <summary>One configuration key. Absent limits are "".</summary>
    public sealed class KeyInfo
    {
        internal KeyInfo(plait_key_info info)
        {
            Key = info.key;
            Type = info.type;
            DefaultValue = info.default_value;
            Minimum = info.minimum;
            Maximum = info.maximum;
            Choices = info.choices;
            Unit = info.unit;
            Doc = info.doc;
            Resume = info.resume;
            Flags = (KeyFlags)info.flags;
        }

        /// <summary>The dotted key.</summary>
        public string Key { get; private set; }

        /// <summary>Name of its type.</summary>
        public string Type { get; private set; }

        /// <summary>Its default as text.</summary>
        public string DefaultValue { get; private set; }

        /// <summary>The least value.</summary>
        public string Minimum { get; private set; }

        /// <summary>The greatest value.</summary>
        public string Maximum { get; private set; }

        /// <summary>Words separated by commas, "" when any text will do.</summary>
        public string Choices { get; private set; }

        /// <summary>Unit of the value.</summary>
        public string Unit { get; private set; }

        /// <summary>What it is for.</summary>
        public string Doc { get; private set; }

        /// <summary>May it differ when a run is resumed: "same", "ask" or "free".</summary>
        public string Resume { get; private set; }

        /// <summary>What is special about it.</summary>
        public KeyFlags Flags { get; private set; }
    }
}
