using System;
using System.Runtime.InteropServices;
using System.Text;
using Plait.Interop;

namespace Plait
{
    /// <summary>Text to ids and back. Any thread may call.</summary>
    public sealed class Tokenizer : IDisposable
    {
        private readonly TokenizerHandle handle;

        /// <summary>
        /// Kind "byte", or "gpt2" with vocab.bpe and encoder.json, or merges.txt and vocab.json, in
        /// <paramref name="directory"/>.
        /// </summary>
        public Tokenizer(Context context, string kind, string directory = null)
        {
            Native.plait_tokenizer_open(Arguments.Required(context, "context").Handle, kind, directory, out handle);
        }

        /// <summary>Number of ids.</summary>
        public long VocabSize
        {
            get { return Native.plait_tokenizer_vocab_size(handle); }
        }

        /// <summary>Ids of a text.</summary>
        public int[] Encode(string text)
        {
            return Encode(Encoding.UTF8.GetBytes(Arguments.Required(text, "text")));
        }

        /// <summary>Ids of any bytes.</summary>
        public unsafe int[] Encode(ReadOnlySpan<byte> text)
        {
            int[] tokens;
            fixed (byte* begin = &MemoryMarshal.GetReference(text))
            {
                Native.plait_tokenizer_encode(handle, (IntPtr)begin, text.Length, out tokens);
            }
            return tokens;
        }

        /// <summary>Bytes of ids; they may end in half a character.</summary>
        public unsafe byte[] Decode(ReadOnlySpan<int> tokens)
        {
            byte[] text;
            fixed (int* begin = &MemoryMarshal.GetReference(tokens))
            {
                Native.plait_tokenizer_decode(handle, (IntPtr)begin, tokens.Length, out text);
            }
            return text;
        }

        /// <summary>
        /// Encodes a text file into a token file with several threads, by keys tokenize.*; the output appears whole
        /// or not at all.
        /// </summary>
        /// <param name="input">Path of the text.</param>
        /// <param name="output">Path of the tokens.</param>
        /// <param name="options">Where the keys are; null for their defaults.</param>
        public Operation EncodeFile(string input, string output, Config options = null)
        {
            OperationHandle operation;
            Native.plait_tokenizer_encode_file(handle, Config.Optional(options), input, output, out operation);
            return new Operation(operation);
        }

        /// <summary>Frees the handle. A second call does nothing.</summary>
        public void Dispose()
        {
            handle.Dispose();
        }
    }
}
