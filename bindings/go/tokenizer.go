package plait

// #include <plait/plait.h>
import "C"

import "unsafe"

// Tokenizer turns text into ids and back. Any goroutine may use it at any time.
type Tokenizer struct{ handle }

// OpenTokenizer opens kind "byte" (directory "") or "gpt2" with vocab.bpe and encoder.json, or merges.txt and
// vocab.json, in directory.
func (c *Context) OpenTokenizer(kind, directory string) (*Tokenizer, error) {
	t, err := texts(kind, directory)
	if err != nil {
		return nil, err
	}
	if directory == "" {
		t[1] = nil
	}
	var made *C.plait_tokenizer
	err = c.call(func(p unsafe.Pointer, fail **C.plait_error) C.int32_t {
		return C.plait_tokenizer_open((*C.plait_context)(p), t[0], t[1], &made, fail)
	})
	if err != nil {
		return nil, err
	}
	tokenizer := &Tokenizer{}
	tokenizer.hold(unsafe.Pointer(made), func(p unsafe.Pointer) { C.plait_tokenizer_free((*C.plait_tokenizer)(p)) }, nil)
	return tokenizer, nil
}

// VocabSize is the number of ids, 0 when the tokenizer is closed.
func (t *Tokenizer) VocabSize() int {
	p, err := t.enter()
	if err != nil {
		return 0
	}
	defer t.leave()
	return int(C.plait_tokenizer_vocab_size((*C.plait_tokenizer)(p)))
}

// Encode gives the ids of a text. Any bytes are allowed.
func (t *Tokenizer) Encode(text []byte) ([]int32, error) {
	var out *C.plait_bytes
	err := t.call(func(p unsafe.Pointer, fail **C.plait_error) C.int32_t {
		return C.plait_tokenizer_encode((*C.plait_tokenizer)(p), unsafe.Pointer(&some(text)[0]), C.int64_t(len(text)), &out, fail)
	})
	if err != nil {
		return nil, err
	}
	return take[int32](out), nil
}

// Decode gives the text of ids; it may end in half a character.
func (t *Tokenizer) Decode(tokens []int32) ([]byte, error) {
	return t.bytes(func(p unsafe.Pointer, out **C.plait_bytes, fail **C.plait_error) C.int32_t {
		return C.plait_tokenizer_decode((*C.plait_tokenizer)(p), first(tokens), C.int64_t(len(tokens)),
			out, fail)
	})
}

// EncodeFile encodes a text file into a token file with several threads, by keys tokenize.* of options, which may be
// nil. The output appears whole or not at all.
func (t *Tokenizer) EncodeFile(options *Config, input, output string) (*Op, error) {
	paths, err := texts(input, output)
	if err != nil {
		return nil, err
	}
	return t.start(options.ref(), func(p, q unsafe.Pointer, op **C.plait_op, fail **C.plait_error) C.int32_t {
		return C.plait_tokenizer_encode_file((*C.plait_tokenizer)(p), (*C.plait_config)(q), paths[0], paths[1], op, fail)
	})
}
