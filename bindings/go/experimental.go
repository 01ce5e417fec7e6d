package plait

// #include <plait/plait_experimental.h>
import "C"

import "unsafe"

// Echo gives back what it gets, by way of the library: a proof that nothing is lost between Go and C. Experimental:
// it may change or go at any version.
func Echo(integer int64, real float64, written string, data []byte) (int64, float64, string, []byte, error) {
	name, err := text(written)
	if err != nil {
		return 0, 0, "", nil, err
	}
	var (
		integerOut C.int64_t
		realOut    C.double
		textOut    *C.plait_bytes
		dataOut    *C.plait_bytes
		object     *C.plait_error
	)
	code := C.plait_x_echo(C.int64_t(integer), C.double(real), name, unsafe.Pointer(&some(data)[0]), C.int64_t(len(data)), &integerOut,
		&realOut, &textOut, &dataOut, &object)
	if err := result(code, object); err != nil {
		return 0, 0, "", nil, err
	}
	return int64(integerOut), float64(realOut), string(take[byte](textOut)), take[byte](dataOut), nil
}
