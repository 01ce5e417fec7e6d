// How values cross between C and C#, for the shapes (a) … (i) that plait.i lists. The generated
// classes are internal; bindings/csharp/Plait holds the layer that hosts see, by hand.
//
// Native code never calls back: it holds no delegate, and no exception is left pending. A wrapper's
// result is 64 bits wide and carries either the value (OK, STOPPED, a state) or the address of the
// error object, which the generated method throws. So handles, bytes and numbers come out as `out`
// arguments, and the layer above returns them.
//
// To be run with -DSWIG_CSHARP_NO_EXCEPTION_HELPER -DSWIG_CSHARP_NO_STRING_HELPER: whatever would
// fall back on SWIG's own callbacks then fails to compile.

%include <typemaps.i>

%csconst(1);  // constants are read when the binding is compiled
%pragma(csharp) moduleclassmodifiers="internal static class"
%pragma(csharp) imclassclassmodifiers="internal static class"
%typemap(csclassmodifiers) SWIGTYPE "internal class"

// (a) The error object, hidden. canthrow marks the methods of which $excode becomes part.
%typemap(in, numinputs=0) plait_error **err (plait_error *error = NULL) %{ $1 = &error; %}
%typemap(argout, canthrow=1) plait_error **err %{
  if (*$1 != NULL) $result = (long long)(intptr_t)*$1;
%}
%typemap(ctype, out="long long") int32_t "int"
%typemap(imtype, out="long") int32_t "int"
%typemap(out) int32_t %{ $result = $1; %}
%typemap(csout, excode="\n    if (outcome > PLAIT_STOPPED) throw global::Plait.PlaitException.Take(outcome);") int32_t {
    long outcome = $imcall;$excode
    return (int)outcome;
  }

// (b) Handles: SafeHandles, which the runtime keeps alive for the time of a call.
%define PLAIT_HANDLE(NOUN, CLASS)
%typemap(ctype) NOUN *, const NOUN * "void *"
%typemap(imtype) NOUN *, const NOUN * "CLASS"
%typemap(cstype) NOUN *, const NOUN * "CLASS"
%typemap(csin) NOUN *, const NOUN * "$csinput"
%typemap(ctype) NOUN ** "void **"
%typemap(imtype) NOUN ** "out CLASS"
%typemap(cstype) NOUN ** "out CLASS"
%typemap(csin) NOUN ** "out $csinput"
%ignore NOUN##_free;
%inline %{
/* What the SafeHandle frees has no SafeHandle any more. */
static void NOUN##_release(void *handle) { NOUN##_free((NOUN *)handle); }
%}
%enddef

// (e), (f) Memory of the host and views on the library's: addresses; the layer above pins. Errors
// and bytes are addresses too, held for a few lines only.
%apply void *VOID_INT_PTR {
  void *, const void *, const int32_t *,
  plait_error *, const plait_error *, plait_bytes *, const plait_bytes *
}
// (g)
%define PLAIT_ADDRESS_OUT(TYPE)
%typemap(ctype) TYPE ** "void **"
%typemap(imtype) TYPE ** "out global::System.IntPtr"
%typemap(cstype) TYPE ** "out global::System.IntPtr"
%typemap(csin) TYPE ** "out $csinput"
%enddef
PLAIT_ADDRESS_OUT(int32_t)
PLAIT_ADDRESS_OUT(const void)

PLAIT_HANDLE(plait_context, ContextHandle)
PLAIT_HANDLE(plait_config, ConfigHandle)
PLAIT_HANDLE(plait_plan, PlanHandle)
PLAIT_HANDLE(plait_group, GroupHandle)
PLAIT_HANDLE(plait_engine, EngineHandle)
PLAIT_HANDLE(plait_batch, BatchHandle)
PLAIT_HANDLE(plait_dataset, DatasetHandle)
PLAIT_HANDLE(plait_tokenizer, TokenizerHandle)
PLAIT_HANDLE(plait_checkpoint, CheckpointHandle)
PLAIT_HANDLE(plait_op, OperationHandle)

// (c) Copied and freed in a `finally` block, also when the call throws.
%define PLAIT_BYTES_OUT(NAME, CSTYPE, TAKE)
%typemap(ctype) plait_bytes **NAME "void **"
%typemap(imtype) plait_bytes **NAME "out global::System.IntPtr"
%typemap(cstype) plait_bytes **NAME "out CSTYPE"
%typemap(csin,
         pre="    global::System.IntPtr bytes_$csinput = global::System.IntPtr.Zero;",
         post="      $csinput = Bytes.TAKE(bytes_$csinput);") plait_bytes **NAME "out bytes_$csinput"
%enddef
PLAIT_BYTES_OUT(lines, string, TakeText)
PLAIT_BYTES_OUT(value, string, TakeText)
PLAIT_BYTES_OUT(json, string, TakeText)
PLAIT_BYTES_OUT(report, string, TakeText)
PLAIT_BYTES_OUT(profile, string, TakeText)
PLAIT_BYTES_OUT(text_out, string, TakeText)
PLAIT_BYTES_OUT(card, byte[], TakeBytes)
PLAIT_BYTES_OUT(data_out, byte[], TakeBytes)
PLAIT_BYTES_OUT(text, byte[], TakeBytes)
PLAIT_BYTES_OUT(values, int[], TakeIntegers)
PLAIT_BYTES_OUT(tokens, int[], TakeIntegers)

// (d) UTF-8 with a NUL behind it; null is NULL both ways.
%typemap(ctype) const char * "const char *"
%typemap(imtype, out="global::System.IntPtr") const char * "byte[]"
%typemap(cstype) const char * "string"
%typemap(csin) const char * "Utf8.Bytes($csinput)"
%typemap(out) const char * %{ $result = $1; %}
%typemap(csout) const char * {
    return Utf8.Text($imcall);
  }
%typemap(csvarout) const char * %{
    get {
      return Utf8.Text($imcall);
    } %}

// (i) Numbers beside the result.
%apply long long *OUTPUT { int64_t *first, int64_t *count, int64_t *bytes, int64_t *integer_out };
%apply double *OUTPUT { double *value, double *real_out };
