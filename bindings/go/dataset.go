package plait

// #include <plait/plait.h>
import "C"

import "unsafe"

// Dataset reads token files. Any goroutine may use it at any time.
type Dataset struct{ handle }

// OpenDataset opens the files of data.train (role "train") or data.evaluate ("evaluate"): flat uint16 or int32 files,
// .bin/.idx pairs, weighted blends. Damaged files are DataLoss.
func (c *Context) OpenDataset(config *Config, role string) (*Dataset, error) {
	name, err := text(role)
	if err != nil {
		return nil, err
	}
	var made *C.plait_dataset
	err = c.callWith(config.ref(), func(p, q unsafe.Pointer, fail **C.plait_error) C.int32_t {
		return C.plait_dataset_open((*C.plait_context)(p), (*C.plait_config)(q), name, &made, fail)
	})
	if err != nil {
		return nil, err
	}
	dataset := &Dataset{}
	dataset.hold(unsafe.Pointer(made), func(p unsafe.Pointer) { C.plait_dataset_free((*C.plait_dataset)(p)) }, nil)
	return dataset, nil
}

func (d *Dataset) ref() *handle {
	if d == nil {
		return nil
	}
	return &d.handle
}

// DatasetInfo describes a dataset.
type DatasetInfo struct {
	Tokens, Documents int64
	Samples           int64 // in one epoch
	SequenceLength    int64
	Fingerprint       int64
}

// Describe gives sizes and fingerprint.
func (d *Dataset) Describe() (DatasetInfo, error) {
	var info C.plait_dataset_info
	info.struct_size = C.int64_t(unsafe.Sizeof(info))
	err := d.call(func(p unsafe.Pointer, fail **C.plait_error) C.int32_t {
		return C.plait_dataset_describe((*C.plait_dataset)(p), &info, fail)
	})
	return DatasetInfo{Tokens: int64(info.tokens), Documents: int64(info.documents), Samples: int64(info.samples),
		SequenceLength: int64(info.sequence_length), Fingerprint: int64(info.fingerprint)}, err
}

// Read is samples firstSample … firstSample + count - 1 of "tokens" or "documents" in training order, row-major of
// count rows of sequence length + 1.
func (d *Dataset) Read(name string, firstSample, count int64) ([]int32, error) {
	tensor, err := text(name)
	if err != nil {
		return nil, err
	}
	var out *C.plait_bytes
	err = d.call(func(p unsafe.Pointer, fail **C.plait_error) C.int32_t {
		return C.plait_dataset_read((*C.plait_dataset)(p), tensor, C.int64_t(firstSample), C.int64_t(count), &out, fail)
	})
	if err != nil {
		return nil, err
	}
	return take[int32](out), nil
}
