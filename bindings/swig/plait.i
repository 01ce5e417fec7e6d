// The one SWIG interface to plait.h, for Java, C# and Python. It says what is wrapped; how a value
// crosses the border is said by one file for each language, included below: java.i, csharp.i,
// python.i. What SWIG generates is internal to a binding. Each binding's build names the module
// (-module) and gives the folder that holds plait/plait.h (-I).
//
// What a language's file must supply, by the names that parameters have in the header. A typemap is
// bound to type and name, or to a row of them where a pointer comes with its counts. Hidden means:
// no argument in the host's language. (In C# the result says how the call ended, so what b, c, g and
// i have as results are `out` arguments there.)
//
//  a  plait_error** err: hidden. Any result but PLAIT_OK and PLAIT_STOPPED throws, with all parts of
//     the error object, which is then freed. PLAIT_STOPPED is a result and has no error object; the
//     metrics of plait_engine_step are valid with it. An `int32_t` result is a code exactly where
//     `err` is a parameter; elsewhere (plait_version, plait_engine_state, plait_error_…) it is a
//     value.
//  b  plait_context** context, plait_config** config, plait_plan** plan, plait_group** group,
//     plait_engine** engine, plait_batch** batch, plait_dataset** dataset,
//     plait_tokenizer** tokenizer, plait_checkpoint** checkpoint, plait_op** op: hidden, the result.
//     NULL on failure and with PLAIT_STOPPED.
//  c  plait_bytes**: hidden, the result, freed once it was copied.
//       UTF-8 text   lines, value, json, report, profile, text_out
//       bytes        card, data_out, text (plait_tokenizer_decode: may end in half a character)
//       int32 array  values (plait_dataset_read), tokens (encode, generate)
//  d  const char*: UTF-8. NULL has a meaning for `value` (plait_config_set, plait_engine_set,
//     plait_checkpoint_set), `directory` (plait_tokenizer_open) and `text`
//     (plait_engine_set_property); plait_build_info may return it. Texts that are returned, and
//     those in structs, are the library's: copy, never free.
//  e  Read by the library: const void* json, const void* card, const void* text, const void* data,
//     each followed by int64_t bytes. Written by the library: void* losses and void* data, each
//     followed by int64_t bytes; NULL data of plait_engine_tensor_read only takes part.
//     const void** data, int64_t* bytes (plait_checkpoint_map): a view that lives as long as the
//     checkpoint's handle and is not to be written.
//  f  const int32_t* values, int64_t rows, int64_t columns (plait_batch_set, NULL removes);
//     const int32_t* prompt, int64_t prompt_count; const int32_t* tokens, int64_t count.
//  g  int64_t rows, int64_t columns, int32_t** values (plait_batch_map): a writable view on the
//     batch's own memory.
//  h  Sized structs: the constructors stand below; they zero the struct and set struct_size.
//     plait_metrics* metrics, plait_batch_spec* spec, plait_progress* progress, and `info` of
//     plait_plan_info, plait_rank_info, plait_key_info, plait_entry_info and plait_dataset_info are
//     outputs. A file may hide them and make a value of its own.
//  i  int64_t* first, int64_t* count (plait_engine_batch_span), double* value
//     (plait_engine_counter), int64_t* integer_out, double* real_out (plait_x_echo): further results.
//
// A handle given to _free must not be used again, and a binding must see to it that no other thread
// is about to enter a call with it: the library counts a call from its first instruction only.

%module plait

// int64_t must be 64 bits wide on the far side too. With SWIGWORDSIZE64 it would be `long`, which
// Java and C# wrap as 32 bits.
#ifdef SWIGWORDSIZE64
#error "do not define SWIGWORDSIZE64: int64_t would shrink to 32 bits in Java and C#"
#endif
%include <stdint.i>

%{
#include <stdlib.h>

#include "plait/plait.h"
#include "plait/plait_experimental.h"

typedef char plait_int64_has_8_bytes[sizeof(int64_t) == 8 && sizeof(long long) == 8 ? 1 : -1];
%}

// Callbacks of the host stay out: logs are drained, processes meet by cards or TCP.
%ignore plait_host;
%ignore plait_log_record;
%ignore plait_kv;
%ignore plait_group_join_kv;
%ignore plait_reply;
%ignore plait_reply_set;
%typemap(in, numinputs=0) const plait_host* host "$1 = NULL;"

// Sized structs. All of those left are outputs: their fields are read.
%immutable;
%define PLAIT_SIZED_STRUCT(TYPE)
%ignore TYPE::struct_size;
%extend TYPE {
  TYPE() {
    TYPE* made = (TYPE*)calloc(1, sizeof(TYPE));
    if (made != NULL) made->struct_size = sizeof(TYPE);
    return made;
  }
  ~TYPE() { free($self); }
}
%enddef
%include "plait_structs.i"

#if defined(SWIGPYTHON)
%include "python.i"
#elif defined(SWIGJAVA)
%include "java.i"
#elif defined(SWIGCSHARP)
%include "csharp.i"
#else
#error "plait.i is made for Java, C# and Python"
#endif

// Neither attributes nor a calling convention, whatever the header says for compilers.
#undef __GNUC__
#define PLAIT_API
#define PLAIT_CALL
%include "plait/plait.h"
%include "plait/plait_experimental.h"
