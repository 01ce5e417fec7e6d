package plait

// #include <plait/plait.h>
import "C"

import "unsafe"

// Config maps dotted keys, such as "model.layers", to text. Plans, groups, datasets and engines copy it when they
// are made. One goroutine at a time.
type Config struct{ handle }

// NewConfig is a configuration with every key at its default.
func (c *Context) NewConfig() (*Config, error) {
	var made *C.plait_config
	err := c.call(func(p unsafe.Pointer, fail **C.plait_error) C.int32_t {
		return C.plait_config_create((*C.plait_context)(p), &made, fail)
	})
	if err != nil {
		return nil, err
	}
	config := &Config{}
	config.hold(unsafe.Pointer(made), func(p unsafe.Pointer) { C.plait_config_free((*C.plait_config)(p)) }, nil)
	return config, nil
}

func (c *Config) ref() *handle {
	if c == nil {
		return nil
	}
	return &c.handle
}

// Set sets a key. A key that does not exist (the nearest one is named) and a value out of its range are
// InvalidArgument.
func (c *Config) Set(key, value string) error {
	t, err := texts(key, value)
	if err != nil {
		return err
	}
	return c.call(func(p unsafe.Pointer, fail **C.plait_error) C.int32_t {
		return C.plait_config_set((*C.plait_config)(p), t[0], t[1], fail)
	})
}

// Reset brings a key back to its default.
func (c *Config) Reset(key string) error {
	name, err := text(key)
	if err != nil {
		return err
	}
	return c.call(func(p unsafe.Pointer, fail **C.plait_error) C.int32_t {
		return C.plait_config_set((*C.plait_config)(p), name, nil, fail)
	})
}

// Get is the effective value of a key: the one set, else the default.
func (c *Config) Get(key string) (string, error) {
	name, err := text(key)
	if err != nil {
		return "", err
	}
	value, err := c.bytes(func(p unsafe.Pointer, out **C.plait_bytes, fail **C.plait_error) C.int32_t {
		return C.plait_config_get((*C.plait_config)(p), name, out, fail)
	})
	return string(value), err
}

// Load merges a JSON object; nested objects and dotted keys mean the same. All of it is taken or, on an error, none.
func (c *Config) Load(json []byte) error {
	return c.call(func(p unsafe.Pointer, fail **C.plait_error) C.int32_t {
		return C.plait_config_load((*C.plait_config)(p), unsafe.Pointer(&some(json)[0]), C.int64_t(len(json)), fail)
	})
}

// LoadHF sets the model.* keys from config.json of a Hugging Face directory of the GPT-2 or Llama family.
func (c *Config) LoadHF(directory string) error {
	path, err := text(directory)
	if err != nil {
		return err
	}
	return c.call(func(p unsafe.Pointer, fail **C.plait_error) C.int32_t {
		return C.plait_config_load_hf((*C.plait_config)(p), path, fail)
	})
}

// Dump is the configuration as a JSON object of dotted keys: those that were set, or all of them.
func (c *Config) Dump(isComplete bool) ([]byte, error) {
	complete := C.int32_t(0)
	if isComplete {
		complete = 1
	}
	return c.bytes(func(p unsafe.Pointer, out **C.plait_bytes, fail **C.plait_error) C.int32_t {
		return C.plait_config_dump((*C.plait_config)(p), complete, out, fail)
	})
}

// Check checks every rule between keys. It needs no device.
func (c *Config) Check() error {
	return c.call(func(p unsafe.Pointer, fail **C.plait_error) C.int32_t {
		return C.plait_config_check((*C.plait_config)(p), fail)
	})
}

// KeyInfo describes one configuration key. Limits that do not exist are "".
type KeyInfo struct {
	Key, Type, Default, Minimum, Maximum string
	Choices                              string // words separated by commas, "" when any text will do
	Unit, Doc                            string
	Resume                               string // "same", "ask" or "free": may it differ when a run is resumed
	IsMutable                            bool   // at run time, by Engine.Set
	IsLocal                              bool   // may differ between processes
	IsHost                               bool   // read by hosts alone
}

// Keys describes every key that exists, in the order of the table.
func (c *Config) Keys() ([]KeyInfo, error) {
	count := 0
	err := c.call(func(p unsafe.Pointer, _ **C.plait_error) C.int32_t {
		count = int(C.plait_config_key_count((*C.plait_config)(p)))
		return C.PLAIT_OK
	})
	keys := make([]KeyInfo, count)
	for i := 0; err == nil && i < count; i++ {
		keys[i], err = c.keyAt(i)
	}
	if err != nil {
		return nil, err
	}
	return keys, nil
}

func (c *Config) keyAt(index int) (KeyInfo, error) {
	var key KeyInfo
	err := c.call(func(p unsafe.Pointer, fail **C.plait_error) C.int32_t {
		var info C.plait_key_info
		info.struct_size = C.int64_t(unsafe.Sizeof(info))
		code := C.plait_config_key_at((*C.plait_config)(p), C.int64_t(index), &info, fail)
		if code == C.PLAIT_OK {
			key = KeyInfo{
				Key: C.GoString(info.key), Type: C.GoString(info._type), Default: C.GoString(info.default_value),
				Minimum: C.GoString(info.minimum), Maximum: C.GoString(info.maximum),
				Choices: C.GoString(info.choices), Unit: C.GoString(info.unit), Doc: C.GoString(info.doc),
				Resume:    C.GoString(info.resume),
				IsMutable: info.flags&C.PLAIT_KEY_MUTABLE != 0,
				IsLocal:   info.flags&C.PLAIT_KEY_LOCAL != 0,
				IsHost:    info.flags&C.PLAIT_KEY_HOST != 0,
			}
		}
		return code
	})
	return key, err
}
