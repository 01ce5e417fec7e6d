package plait

/*
#include <plait/plait.h>

// Defined in kv.go. The word is a cgo.Handle: C keeps no pointer of Go.
int64_t plait_go_put(uintptr_t user, char* key, void* value, int64_t bytes);
int64_t plait_go_get(uintptr_t user, char* key, int64_t milliseconds, plait_reply* reply);

static int64_t put(void* user, const char* key, const void* value, int64_t bytes) {
  return plait_go_put((uintptr_t)user, (char*)key, (void*)value, bytes);
}

static int64_t get(void* user, const char* key, int64_t milliseconds, plait_reply* reply) {
  return plait_go_get((uintptr_t)user, (char*)key, milliseconds, reply);
}

static int32_t join_kv(plait_group* group, uintptr_t user, int64_t milliseconds, plait_error** fail) {
  const plait_kv kv = {sizeof kv, (void*)user, put, get, 0};
  return plait_group_join_kv(group, &kv, milliseconds, fail);
}
*/
import "C"

import (
	"context"
	"runtime/cgo"
	"unsafe"
)

// JoinKV exchanges cards through a store of this program, then commits; every process calls it.
func (g *Group) JoinKV(ctx context.Context, store KV) error {
	j := &joining{ctx: ctx, store: store}
	word := cgo.NewHandle(j)
	defer word.Delete()
	err := g.meet(ctx, func(p unsafe.Pointer, milliseconds C.int64_t, fail **C.plait_error) C.int32_t {
		return C.join_kv((*C.plait_group)(p), C.uintptr_t(word), milliseconds, fail)
	})
	if failure, ok := err.(*Error); ok && failure.Code == HostError {
		failure.cause = j.failure
	}
	return err
}
