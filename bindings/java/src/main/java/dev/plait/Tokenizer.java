package dev.plait;

import dev.plait.internal.Api;
import dev.plait.internal.Utf8;

/** Text to ids and back. */
public final class Tokenizer extends Handle {
  private Tokenizer(long address) {
    super("tokenizer", address, Api::plait_tokenizer_free, null);
  }

  /**
   * Opens a tokenizer.
   *
   * @param context what it hangs on
   * @param kind "byte" or "gpt2"
   * @param directory that holds vocab.bpe and encoder.json, or merges.txt and vocab.json; null for byte
   * @return an open tokenizer
   */
  public static Tokenizer open(Context context, String kind, String directory) {
    return new Tokenizer(context.number(c -> Api.plait_tokenizer_open(c, kind, directory)));
  }

  /**
   * How many ids there are.
   *
   * @return ids are less than that
   */
  public long vocabSize() {
    return number(Api::plait_tokenizer_vocab_size);
  }

  /**
   * The ids of a text.
   *
   * @param text any bytes
   * @return ids
   */
  public int[] encode(byte[] text) {
    try (NativeMemory copy = NativeMemory.of(text)) {
      return get(tokenizer -> Api.plait_tokenizer_encode(tokenizer, copy.head(), copy.size()));
    }
  }

  /**
   * The ids of a text.
   *
   * @param text taken as UTF-8
   * @return ids
   */
  public int[] encode(String text) {
    return encode(Utf8.encode(text));
  }

  /**
   * The text of ids. It may end in half a character, so it is given as bytes.
   *
   * @param ids any ids
   * @return UTF-8, if they came from a text
   */
  public byte[] decode(int[] ids) {
    return get(tokenizer -> Api.plait_tokenizer_decode(tokenizer, ids, ids.length));
  }

  /**
   * Encodes a file with several threads. The output appears whole or not at all.
   *
   * @param options keys tokenize.*, or null
   * @param input text file
   * @param output token file
   * @return the operation
   */
  public Operation encodeFile(Config options, String input, String output) {
    return new Operation(number(tokenizer -> number(
        options, keys -> Api.plait_tokenizer_encode_file(tokenizer, keys, input, output))));
  }
}
