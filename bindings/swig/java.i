// Java: how values cross the border. The binding by hand (bindings/java) calls the module class Api of
// package dev.plait.internal, which is made from this.
//
// Handles are longs that the layer above counts the users of. A function gives back the handle, text,
// bytes, ids or address that it makes (the tables below), else its code, which is PLAIT_OK or
// PLAIT_STOPPED: every other one is thrown as dev.plait.PlaitException. Memory is a direct buffer with
// its length as a number beside it, so that it may be longer than a buffer can be.

%javaconst(1);
%pragma(java) moduleclassmodifiers="public final class"
%pragma(java) jniclassclassmodifiers="final class"
%pragma(java) jniclasscode=%{
  static {
    NativeLibrary.load();
  }
%}

// What the layer above never calls: errors are thrown and freed, bytes are copied and freed.
%ignore plait_error_code;
%ignore plait_error_rank;
%ignore plait_error_disposition;
%ignore plait_error_message;
%ignore plait_error_word;
%ignore plait_error_subsystem;
%ignore plait_error_details;
%ignore plait_error_host_code;
%ignore plait_error_free;
%ignore plait_bytes_data;
%ignore plait_bytes_size;
%ignore plait_bytes_free;

%{
#include <cstring>
#include <memory>
#include <new>

static_assert(sizeof(jlong) == sizeof(int64_t) && sizeof(void*) == sizeof(jlong) &&
              sizeof(jint) == sizeof(int32_t));

namespace {

jclass exception_class;
jmethodID make_exception;

void throw_java(JNIEnv* env, const char* type, const char* text) {
  const jclass found = env->FindClass(type);
  if (found != nullptr) env->ThrowNew(found, text);
}

/// A copy as a byte[]; null with an exception pending where there is no room.
jbyteArray make_byte_array(JNIEnv* env, const void* data, int64_t bytes) {
  if (bytes > INT32_MAX - 8) {
    throw_java(env, "java/lang/OutOfMemoryError", "more bytes than a Java array can hold");
    return nullptr;
  }
  const jbyteArray array = env->NewByteArray(static_cast<jsize>(bytes));
  if (array != nullptr && bytes > 0) {
    env->SetByteArrayRegion(array, 0, static_cast<jsize>(bytes), static_cast<const jbyte*>(data));
  }
  return array;
}

jbyteArray make_text(JNIEnv* env, const char* text) {
  return text == nullptr ? nullptr : make_byte_array(env, text, static_cast<int64_t>(strlen(text)));
}

jbyteArray take_bytes(JNIEnv* env, plait_bytes* bytes) {
  if (bytes == nullptr) return nullptr;
  const jbyteArray array = make_byte_array(env, plait_bytes_data(bytes), plait_bytes_size(bytes));
  plait_bytes_free(bytes);
  return array;
}

jintArray take_ints(JNIEnv* env, plait_bytes* bytes) {
  if (bytes == nullptr) return nullptr;
  const int64_t count = plait_bytes_size(bytes) / static_cast<int64_t>(sizeof(jint));
  jintArray array = nullptr;
  if (count > INT32_MAX - 8) {
    throw_java(env, "java/lang/OutOfMemoryError", "more ids than a Java array can hold");
  } else {
    array = env->NewIntArray(static_cast<jsize>(count));
  }
  if (array != nullptr && count > 0) {
    env->SetIntArrayRegion(array, 0, static_cast<jsize>(count),
                           static_cast<const jint*>(plait_bytes_data(bytes)));
  }
  plait_bytes_free(bytes);
  return array;
}

/// Throws what PlaitException makes of all parts of the error, and frees it.
void throw_error(JNIEnv* env, plait_error* error) {
  const char* texts[] = {plait_error_message(error), plait_error_word(error),
                         plait_error_subsystem(error), plait_error_details(error)};
  jvalue arguments[8];
  arguments[0].i = plait_error_code(error);
  arguments[1].i = plait_error_rank(error);
  arguments[2].i = plait_error_disposition(error);
  arguments[3].j = plait_error_host_code(error);
  bool is_complete = true;
  for (int i = 0; is_complete && i < 4; ++i) {
    arguments[4 + i].l = make_text(env, texts[i]);
    is_complete = arguments[4 + i].l != nullptr;
  }
  plait_error_free(error);
  if (!is_complete) return;  // an OutOfMemoryError is pending
  const jobject made = env->CallStaticObjectMethodA(exception_class, make_exception, arguments);
  if (!env->ExceptionCheck()) env->Throw(static_cast<jthrowable>(made));
}

/// UTF-8 from a byte[], with a NUL behind it. The short ones need no allocation.
class Text {
 public:
  /// False with an exception pending.
  bool take(JNIEnv* env, jbyteArray bytes) {
    if (bytes == nullptr) return true;
    const jsize length = env->GetArrayLength(bytes);
    char* room = small_;
    if (length >= static_cast<jsize>(sizeof small_)) {
      large_.reset(new (std::nothrow) char[static_cast<size_t>(length) + 1]);
      room = large_.get();
    }
    if (room == nullptr) {
      throw_java(env, "java/lang/OutOfMemoryError", "a text for the C interface");
      return false;
    }
    env->GetByteArrayRegion(bytes, 0, length, reinterpret_cast<jbyte*>(room));
    room[length] = '\0';
    text_ = room;
    return true;
  }
  char* get() { return text_; }

 private:
  char small_[256];
  std::unique_ptr<char[]> large_;
  char* text_ = nullptr;
};

/// The elements of an int[] for the length of a call that reads them.
class Ints {
 public:
  Ints() = default;
  Ints(const Ints&) = delete;
  Ints& operator=(const Ints&) = delete;
  ~Ints() {
    if (elements_ != nullptr) env_->ReleaseIntArrayElements(array_, elements_, JNI_ABORT);
  }
  /// False with an exception pending.
  bool take(JNIEnv* env, jintArray array) {
    if (array == nullptr) return true;
    env_ = env;
    array_ = array;
    elements_ = env->GetIntArrayElements(array, nullptr);
    return elements_ != nullptr;
  }
  jint* get() { return elements_; }

 private:
  JNIEnv* env_ = nullptr;
  jintArray array_ = nullptr;
  jint* elements_ = nullptr;
};

}  // namespace

extern "C" JNIEXPORT jint JNICALL JNI_OnLoad(JavaVM* machine, void*) {
  JNIEnv* env = nullptr;
  if (machine->GetEnv(reinterpret_cast<void**>(&env), JNI_VERSION_10) != JNI_OK) return JNI_ERR;
  const jclass found = env->FindClass("dev/plait/PlaitException");
  if (found == nullptr) return JNI_ERR;
  exception_class = static_cast<jclass>(env->NewGlobalRef(found));
  make_exception = env->GetStaticMethodID(found, "of", "(IIIJ[B[B[B[B)Ldev/plait/PlaitException;");
  return exception_class == nullptr || make_exception == nullptr ? JNI_ERR : JNI_VERSION_10;
}
%}

// (a) Errors. This comes last in every call, since nothing may be called with an exception pending.
%typemap(in, numinputs=0) plait_error** err (plait_error* error = NULL) "$1 = &error;"
%typemap(argout) plait_error** err "if (*$1 != NULL) throw_error(jenv, *$1);"

// (b) Handles.
%define PLAIT_HANDLE(TYPE)
%typemap(jni) TYPE*, const TYPE* "jlong"
%typemap(jtype) TYPE*, const TYPE* "long"
%typemap(jstype) TYPE*, const TYPE* "long"
%typemap(javain) TYPE*, const TYPE* "$javainput"
%typemap(in) TYPE*, const TYPE* "$1 = ($1_ltype)(intptr_t)$input;"
%typemap(in, numinputs=0) TYPE** (TYPE* handle = NULL) "$1 = &handle;"
%typemap(argout) TYPE** %{
  jlong& made$argnum = $result;  // a reference: the function must stand in the table of handles
  made$argnum = (jlong)(intptr_t)*$1;
%}
%enddef
PLAIT_HANDLE(plait_context)
PLAIT_HANDLE(plait_config)
PLAIT_HANDLE(plait_plan)
PLAIT_HANDLE(plait_group)
PLAIT_HANDLE(plait_engine)
PLAIT_HANDLE(plait_batch)
PLAIT_HANDLE(plait_dataset)
PLAIT_HANDLE(plait_tokenizer)
PLAIT_HANDLE(plait_checkpoint)
PLAIT_HANDLE(plait_op)

%define PLAIT_GIVES(FUNCTION, JNI_TYPE, JAVA_TYPE)
%typemap(jni) int32_t FUNCTION "JNI_TYPE"
%typemap(jtype) int32_t FUNCTION "JAVA_TYPE"
%typemap(jstype) int32_t FUNCTION "JAVA_TYPE"
%typemap(out) int32_t FUNCTION "(void)$1;"
%enddef
PLAIT_GIVES(plait_context_create, jlong, long)
PLAIT_GIVES(plait_config_create, jlong, long)
PLAIT_GIVES(plait_plan_create, jlong, long)
PLAIT_GIVES(plait_group_create, jlong, long)
PLAIT_GIVES(plait_engine_create, jlong, long)
PLAIT_GIVES(plait_batch_create, jlong, long)
PLAIT_GIVES(plait_dataset_open, jlong, long)
PLAIT_GIVES(plait_tokenizer_open, jlong, long)
PLAIT_GIVES(plait_tokenizer_encode_file, jlong, long)
PLAIT_GIVES(plait_checkpoint_save, jlong, long)
PLAIT_GIVES(plait_checkpoint_open, jlong, long)
PLAIT_GIVES(plait_checkpoint_verify, jlong, long)
PLAIT_GIVES(plait_checkpoint_convert, jlong, long)
PLAIT_GIVES(plait_checkpoint_export_hf, jlong, long)

// (c) Bytes.
%typemap(in, numinputs=0) plait_bytes** (plait_bytes* bytes = NULL) "$1 = &bytes;"
%typemap(argout) plait_bytes** %{
  jbyteArray& made$argnum = $result;  // a reference: the function must stand in a table of bytes
  made$argnum = take_bytes(jenv, *$1);
%}
%typemap(argout) plait_bytes** values, plait_bytes** tokens %{
  jintArray& made$argnum = $result;
  made$argnum = take_ints(jenv, *$1);
%}
PLAIT_GIVES(plait_group_card, jbyteArray, byte[])
PLAIT_GIVES(plait_tokenizer_decode, jbyteArray, byte[])
PLAIT_GIVES(plait_dataset_read, jintArray, int[])
PLAIT_GIVES(plait_tokenizer_encode, jintArray, int[])
PLAIT_GIVES(plait_engine_generate, jintArray, int[])

%define PLAIT_GIVES_TEXT(FUNCTION)
PLAIT_GIVES(FUNCTION, jbyteArray, byte[])
%typemap(jstype) int32_t FUNCTION "String"
%typemap(javaout) int32_t FUNCTION { return Utf8.decode($jnicall); }
%enddef
PLAIT_GIVES_TEXT(plait_context_log_drain)
PLAIT_GIVES_TEXT(plait_config_get)
PLAIT_GIVES_TEXT(plait_config_dump)
PLAIT_GIVES_TEXT(plait_plan_report)
PLAIT_GIVES_TEXT(plait_group_measure)
PLAIT_GIVES_TEXT(plait_engine_report)
PLAIT_GIVES_TEXT(plait_checkpoint_load)
PLAIT_GIVES_TEXT(plait_checkpoint_list)
PLAIT_GIVES_TEXT(plait_checkpoint_report)
PLAIT_GIVES_TEXT(plait_op_result)

// plait_x_echo has two outputs of bytes: each goes into the first element of an array.
%typemap(jni) plait_bytes** text_out, plait_bytes** data_out "jobjectArray"
%typemap(jtype) plait_bytes** text_out, plait_bytes** data_out "byte[][]"
%typemap(jstype) plait_bytes** text_out, plait_bytes** data_out "byte[][]"
%typemap(javain) plait_bytes** text_out, plait_bytes** data_out "$javainput"
%typemap(in) plait_bytes** text_out (plait_bytes* bytes = NULL),
             plait_bytes** data_out (plait_bytes* bytes = NULL) "$1 = &bytes;"
%typemap(argout) plait_bytes** text_out, plait_bytes** data_out %{
  if (*$1 != NULL) {
    const jbyteArray made$argnum = take_bytes(jenv, *$1);
    if (made$argnum == NULL) return $null;
    jenv->SetObjectArrayElement($input, 0, made$argnum);
  }
%}

// (d) Text, as a byte[] of UTF-8: what the JVM calls UTF-8 in its own text functions is another code.
%typemap(jni) const char* "jbyteArray"
%typemap(jtype) const char* "byte[]"
%typemap(jstype) const char* "String"
%typemap(javain) const char* "Utf8.encode($javainput)"
%typemap(in) const char* (Text text) %{
  if (!text.take(jenv, $input)) return $null;
  $1 = text.get();
%}
%typemap(freearg) const char* ""
%typemap(out) const char* "$result = make_text(jenv, $1);"
%typemap(javaout) const char* { return Utf8.decode($jnicall); }

// (e) Memory: a direct buffer, from its position 0 on; how many bytes is the next argument.
%typemap(jni) const void*, void* "jobject"
%typemap(jtype) const void*, void* "java.nio.ByteBuffer"
%typemap(jstype) const void*, void* "java.nio.ByteBuffer"
%typemap(javain) const void*, void* "$javainput"
%typemap(in) const void*, void* %{
  if ($input != NULL) {
    $1 = jenv->GetDirectBufferAddress($input);
    if ($1 == NULL) {
      throw_java(jenv, "java/lang/IllegalArgumentException", "the buffer is not direct");
      return $null;
    }
  }
%}
%typemap(javaout) void* { return $jnicall; }

// (f) Ids.
%typemap(jni) const int32_t* "jintArray"
%typemap(jtype) const int32_t* "int[]"
%typemap(jstype) const int32_t* "int[]"
%typemap(javain) const int32_t* "$javainput"
%typemap(in) const int32_t* (Ints ints) %{
  if (!ints.take(jenv, $input)) return $null;
  $1 = ints.get();
%}

// (g) The library's own memory, as an address: plait_java_view makes buffers of it.
%typemap(in, numinputs=0) int32_t** values (int32_t* mapped = NULL) "$1 = &mapped;"
%typemap(argout) int32_t** values "$result = (jlong)(intptr_t)*$1;"
PLAIT_GIVES(plait_batch_map, jlong, long)
%typemap(out) void* plait_java_view "$result = jenv->NewDirectByteBuffer($1, arg2);"

// (h) Structs go when they are closed; there is no finalizer, which might run during a call.
%typemap(javafinalize) SWIGTYPE ""
%typemap(javainterfaces) SWIGTYPE "AutoCloseable"
%typemap(javaconstruct) SWIGTYPE {
    this($imcall, true);
    if (swigCPtr == 0) throw new OutOfMemoryError("a struct of the C interface");
  }
%typemap(javacode) SWIGTYPE %{
  public void close() {
    delete();
  }
%}

// (i) Further outputs go into the first element of an array.
%define PLAIT_OUTPUT(TYPE, VALUE, JNI_ARRAY, JAVA_ARRAY, ELEMENT, SET)
%typemap(jni) TYPE "JNI_ARRAY"
%typemap(jtype) TYPE "JAVA_ARRAY"
%typemap(jstype) TYPE "JAVA_ARRAY"
%typemap(javain) TYPE "$javainput"
%typemap(in) TYPE (VALUE output = 0) "$1 = ($1_ltype)&output;"
%typemap(argout) TYPE %{
  const ELEMENT made$argnum = (ELEMENT)*$1;
  jenv->SET($input, 0, 1, &made$argnum);
%}
%enddef
PLAIT_OUTPUT(int64_t*, int64_t, jlongArray, long[], jlong, SetLongArrayRegion)
PLAIT_OUTPUT(double*, double, jdoubleArray, double[], jdouble, SetDoubleArrayRegion)
PLAIT_OUTPUT(const void**, const void*, jlongArray, long[], jlong, SetLongArrayRegion)

// Memory that may be longer than a Java buffer, and buffers upon parts of it.
%inline %{
static int64_t plait_java_allocate(int64_t bytes) {
  return bytes < 0 ? 0 : (int64_t)(intptr_t)calloc(bytes > 0 ? (size_t)bytes : 1, 1);
}
static void plait_java_release(int64_t address) { free((void*)(intptr_t)address); }
static void* plait_java_view(int64_t address, int64_t bytes) {
  (void)bytes;
  return (void*)(intptr_t)address;
}
%}
