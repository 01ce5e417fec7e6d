/** @file
 * Plait: trains GPT-style Transformers inside a host program. This header is the whole public ABI.
 *
 * Conventions that hold for every declaration below:
 * - A function that can fail returns a code: PLAIT_OK is 0, all others are listed in "Codes". On
 *   failure *err receives an error object that the caller frees; err may be NULL. PLAIT_STOPPED is
 *   an answer to a request and comes without an error object.
 * - Handles are opaque and come back NULL on failure. They may be freed in any order: a child keeps
 *   its parents alive. A NULL, freed or wrong handle is INVALID_ARGUMENT/bad_handle.
 * - Outputs other than handles may be NULL when they are not wanted.
 * - Sized structs: zero the struct, set struct_size = sizeof the struct, pass it. In outputs the
 *   bits of `valid` say which groups of fields were filled. `const char*` fields live as long as
 *   the handle that they were asked from.
 * - Text is UTF-8. Names, keys and paths end in NUL; payloads are a pointer and a byte count.
 * - timeout_ms > 0 limits this call alone, -1 sets no limit of its own, 0 only polls and is legal
 *   for plait_op_wait alone. Configured deadlines hold in every case: no wait is unbounded.
 * - Arguments are checked before anything changes: INVALID_ARGUMENT means that nothing happened.
 * - A function whose part is not in this build returns UNIMPLEMENTED/not_built and names the part;
 *   plait_build_info("feature.<name>") tells beforehand.
 *
 * The last line of each comment is its tag:
 *   @since       first version that has it
 *   @threads     A: any thread at any time. 1: one call at a time on the handle (an overlap is
 *                FAILED_PRECONDITION/busy). C: as 1, and every process makes the same call.
 *   @collective  yes where all processes of the group take part
 *   @owns        the outputs that the caller must free, or none
 *   @lifecycle   experimental, stable or deprecated
 */
#ifndef PLAIT_PLAIT_H
#define PLAIT_PLAIT_H

#include <stdint.h>

/** Stands on every function: it is exported. */
#if defined(__GNUC__)
#define PLAIT_API __attribute__((visibility("default")))
#else
#define PLAIT_API
#endif
/** Calling convention of every function and callback. */
#define PLAIT_CALL

#define PLAIT_VERSION_MAJOR 0 /**< of this header; a new one may break its hosts */
#define PLAIT_VERSION_MINOR 1 /**< of this header; before 1.0 each is an ABI of its own */
#define PLAIT_VERSION_PATCH 0 /**< of this header; says nothing about the ABI */
/** What a host hands to plait_context_create: the version whose header it was compiled with. */
#define PLAIT_API_VERSION (PLAIT_VERSION_MAJOR * 1000000 + PLAIT_VERSION_MINOR * 1000)

#ifdef __cplusplus
extern "C" {
#endif

/* Handles. Each has its own _free. */
typedef struct plait_error plait_error;           /**< why a call failed; immutable */
typedef struct plait_bytes plait_bytes;           /**< bytes or text that a call gave; immutable */
typedef struct plait_context plait_context;       /**< version, log; everything else hangs on one */
typedef struct plait_config plait_config;         /**< dotted keys with their values */
typedef struct plait_plan plait_plan;             /**< candidates of a layout */
typedef struct plait_group plait_group;           /**< the processes and ranks of one run */
typedef struct plait_engine plait_engine;         /**< model, optimizer and the local ranks */
typedef struct plait_batch plait_batch;           /**< tokens that the host supplies */
typedef struct plait_dataset plait_dataset;       /**< token files */
typedef struct plait_tokenizer plait_tokenizer;   /**< text to ids and back */
typedef struct plait_checkpoint plait_checkpoint; /**< a checkpoint, opened without an engine */
typedef struct plait_op plait_op;                 /**< work that outlives its call */
typedef struct plait_reply plait_reply;           /**< exists inside a kv.get callback only */

/** Codes. Expect numbers that are not in this list from a newer library. Never renumbered. */
enum {
  PLAIT_OK = 0,                  /**< done */
  PLAIT_CANCELLED = 1,           /**< the operation was cancelled */
  PLAIT_UNKNOWN = 2,             /**< an error of no known kind */
  PLAIT_INVALID_ARGUMENT = 3,    /**< this call is wrong; nothing happened */
  PLAIT_DEADLINE_EXCEEDED = 4,   /**< a limit of time was reached */
  PLAIT_NOT_FOUND = 5,           /**< no such file, checkpoint, key or tensor */
  PLAIT_ALREADY_EXISTS = 6,      /**< the target is there and is not overwritten */
  PLAIT_PERMISSION_DENIED = 7,   /**< the system refused access */
  PLAIT_RESOURCE_EXHAUSTED = 8,  /**< too little memory, disk space or descriptors */
  PLAIT_FAILED_PRECONDITION = 9, /**< not in this state, or the processes disagree */
  PLAIT_ABORTED = 10,            /**< an abort ended the call, or came before it */
  PLAIT_OUT_OF_RANGE = 11,       /**< numbers are not finite, or too large for their type */
  PLAIT_UNIMPLEMENTED = 12,      /**< not in this library or build */
  PLAIT_INTERNAL = 13,           /**< a mistake of the library itself */
  PLAIT_UNAVAILABLE = 14,        /**< the system or the network failed; may pass */
  PLAIT_DATA_LOSS = 15,          /**< files are damaged, or copies of weights differ */
  PLAIT_UNAUTHENTICATED = 16,    /**< a process that joins has another network.token */
  PLAIT_HOST_ERROR = 64,         /**< a callback of the host failed */
  PLAIT_PEER_LOST = 65,          /**< another process died or froze */
  PLAIT_STOPPED = 66 /**< plait_engine_request_stop took effect; the state can be saved */
};

/** What an error left behind. */
enum {
  PLAIT_DISPOSITION_UNCHANGED = 1,   /**< no effect; correct the call */
  PLAIT_DISPOSITION_RETRY = 2,       /**< no effect; the same call may succeed later */
  PLAIT_DISPOSITION_ENGINE_LOST = 3, /**< free engine and group, then make new ones */
  PLAIT_DISPOSITION_PROCESS_LOST = 4 /**< device or memory cannot be repaired in this process */
};

/* States, levels, scopes, kinds and the like; each group is the set of values of one argument. */

/** What plait_engine_state answers. */
enum {
  PLAIT_ENGINE_READY = 1,   /**< takes calls */
  PLAIT_ENGINE_RUNNING = 2, /**< a call is in progress */
  PLAIT_ENGINE_LOST = 3,    /**< answers state, counter, report and close; to be freed */
  PLAIT_ENGINE_CLOSED = 4   /**< plait_engine_close has returned */
};
/** What plait_progress.state holds. */
enum {
  PLAIT_OP_RUNNING = 1,  /**< not ended */
  PLAIT_OP_DONE = 2,     /**< ended well; it may have a result */
  PLAIT_OP_FAILED = 3,   /**< ended with an error, which plait_op_wait gives */
  PLAIT_OP_CANCELLED = 4 /**< ended since it was asked to */
};
/** Levels of log records; a lower one is more urgent. */
enum {
  PLAIT_LOG_ERROR = 1,   /**< something failed */
  PLAIT_LOG_WARNING = 2, /**< something deserves a look */
  PLAIT_LOG_INFO = 3,    /**< what happened; the level at the start */
  PLAIT_LOG_DEBUG = 4,   /**< for the search for a mistake */
  PLAIT_LOG_TRACE = 5    /**< everything */
};
/** Which rows a batch holds. */
enum {
  PLAIT_BATCH_GLOBAL = 1, /**< those of all processes, in global order */
  PLAIT_BATCH_LOCAL = 2   /**< those of plait_engine_batch_span alone */
};
/** Flags of plait_batch_spec.needs: what this process must supply. */
enum {
  PLAIT_NEEDS_TOKENS = 1,   /**< "tokens" */
  PLAIT_NEEDS_TARGETS = 2,  /**< "targets", where targets are given at all */
  PLAIT_NEEDS_DOCUMENTS = 4 /**< "documents", where they are used */
};
/** What of a parameter is meant. A gradient is never stored in a checkpoint. */
enum {
  PLAIT_KIND_PARAM = 1,    /**< the weight that computes */
  PLAIT_KIND_MASTER = 2,   /**< the fp32 weight that is updated */
  PLAIT_KIND_MOMENT1 = 3,  /**< mean of gradients */
  PLAIT_KIND_MOMENT2 = 4,  /**< mean of squared gradients */
  PLAIT_KIND_EXTRA = 5,    /**< a further state, as the format allows */
  PLAIT_KIND_GRADIENT = 64 /**< divided by the targets so far, neither clipped nor scaled */
};
/** Types of elements, with the numbers of the checkpoint format. */
enum {
  PLAIT_DTYPE_FLOAT32 = 1,  /**< IEEE 754, 32 bits */
  PLAIT_DTYPE_BFLOAT16 = 2, /**< upper half of a FLOAT32 */
  PLAIT_DTYPE_FLOAT16 = 3,  /**< IEEE 754, 16 bits */
  PLAIT_DTYPE_INT32 = 6,    /**< signed, 32 bits */
  PLAIT_DTYPE_INT64 = 7,    /**< signed, 64 bits */
  PLAIT_DTYPE_UINT8 = 8     /**< a byte */
};
/** Types of a named value that goes into checkpoints. */
enum {
  PLAIT_PROPERTY_INTEGER = 1, /**< field `integer` */
  PLAIT_PROPERTY_REAL = 2,    /**< field `real` */
  PLAIT_PROPERTY_TEXT = 3     /**< field `text` */
};
/** Flags of plait_key_info.flags. */
enum {
  PLAIT_KEY_MUTABLE = 1, /**< plait_engine_set takes it */
  PLAIT_KEY_LOCAL = 2,   /**< may differ between processes */
  PLAIT_KEY_HOST = 4     /**< for hosts; the engine does not read it */
};
/** Bits of `valid`. A struct that is not named here has the one bit PLAIT_VALID_ALL. */
enum { PLAIT_VALID_ALL = 1 /**< every field was filled */ };
/** Bits of plait_metrics.valid. */
enum {
  PLAIT_METRICS_STEP = 1,    /**< step … loss_scale; equal in every process */
  PLAIT_METRICS_TIME = 2,    /**< step_seconds … data_seconds */
  PLAIT_METRICS_MEMORY = 4,  /**< memory_bytes, memory_peak_bytes */
  PLAIT_METRICS_REPLICAS = 8 /**< diverged_rank; on steps that checked */
};
/** Bits of plait_entry_info.valid. */
enum {
  PLAIT_ENTRY_TENSOR = 1,   /**< kind … elements */
  PLAIT_ENTRY_PROPERTY = 2, /**< type, and the field that it names */
  PLAIT_ENTRY_DIGEST = 4    /**< digest */
};

/** What one call on the engine measured. Counts are of the whole group. Seconds are wall time. */
typedef struct plait_metrics {
  int64_t struct_size;           /**< bytes of the struct, set by the host */
  int64_t valid;                 /**< PLAIT_METRICS_… */
  int64_t step;                  /**< the first is 1 */
  int64_t samples_total;         /**< sequences since the run began */
  int64_t tokens_total;          /**< tokens since the run began */
  int64_t skipped_total;         /**< steps whose update was not applied */
  int64_t tokens;                /**< since the last update, this call's included */
  int64_t targets;               /**< of them the unmasked targets */
  int64_t skipped;               /**< 1: the update was not applied */
  double loss;                   /**< mean negative log-likelihood per target, in nats */
  double grad_norm;              /**< before clipping */
  double lr;                     /**< learning rate used in this step */
  double loss_scale;             /**< used in this step; 1 where there is none */
  double step_seconds;           /**< of the whole call */
  double tokens_per_second;      /**< of the whole group */
  double model_flops_per_second; /**< of the whole group, by the model's formula */
  double forward_seconds;        /**< this and the next five: mean over local ranks */
  double backward_seconds;       /**< backward passes */
  double communication_seconds;  /**< not hidden behind compute */
  double optimizer_seconds;      /**< the update */
  double bubble_seconds;         /**< waiting for other stages */
  double data_seconds;           /**< reading and copying tokens */
  int64_t memory_bytes;          /**< of the largest local rank */
  int64_t memory_peak_bytes;     /**< of the largest local rank, since the engine was created */
  int64_t diverged_rank;         /**< whose copies differ; -1: none */
} plait_metrics;

/** What the next step wants to be fed. */
typedef struct plait_batch_spec {
  int64_t struct_size;     /**< bytes of the struct, set by the host */
  int64_t valid;           /**< PLAIT_VALID_ALL, or 0 on failure */
  int64_t global_rows;     /**< sequences of the whole step */
  int64_t local_rows;      /**< rows of a LOCAL batch */
  int64_t span_count;      /**< runs of plait_engine_batch_span */
  int64_t sequence_length; /**< inputs of a row; with its last target a row has one token more */
  int64_t vocab_size;      /**< tokens are 0 … vocab_size - 1 */
  int64_t first_sample;    /**< sample index of global row 0 */
  int64_t needs;           /**< PLAIT_NEEDS_… */
} plait_batch_spec;

/** One candidate of a plan. */
typedef struct plait_plan_info {
  int64_t struct_size;        /**< bytes of the struct, set by the host */
  int64_t valid;              /**< PLAIT_VALID_ALL, or 0 on failure */
  int64_t is_feasible;        /**< 0: `reason` says why not */
  int64_t tensor;             /**< layout.tensor */
  int64_t pipeline;           /**< layout.pipeline */
  int64_t data;               /**< layout.data */
  int64_t interleave;         /**< layout.interleave */
  int64_t zero;               /**< layout.zero */
  int64_t micro_batch;        /**< layout.micro_batch */
  int64_t memory_bytes;       /**< of the largest rank */
  int64_t memory_limit_bytes; /**< of the largest rank */
  double step_seconds;        /**< of one optimizer step */
  double tokens_per_second;   /**< of the whole group */
  double bubble_share;        /**< of the step */
  double model_flops_share;   /**< of the peak */
  const char* reason;         /**< why it was rejected, "" when it was not */
} plait_plan_info;

/** One rank of a candidate: its coordinates and what it holds and does. */
typedef struct plait_rank_info {
  int64_t struct_size;          /**< bytes of the struct, set by the host */
  int64_t valid;                /**< PLAIT_VALID_ALL, or 0 on failure */
  int64_t tensor;               /**< coordinate on the tensor axis */
  int64_t pipeline;             /**< coordinate on the pipeline axis */
  int64_t data;                 /**< coordinate on the data axis */
  int64_t weight_bytes;         /**< of parameters */
  int64_t gradient_bytes;       /**< of gradients */
  int64_t optimizer_bytes;      /**< of masters and moments */
  int64_t activation_bytes;     /**< of the saved state of micro-batches */
  int64_t communication_bytes;  /**< of buffers for other ranks */
  int64_t workspace_bytes;      /**< of scratch memory */
  double compute_seconds;       /**< of one optimizer step */
  double communication_seconds; /**< of one optimizer step */
  double bubble_share;          /**< of the step */
} plait_rank_info;

/** One configuration key. Absent limits are "". */
typedef struct plait_key_info {
  int64_t struct_size;       /**< bytes of the struct, set by the host */
  int64_t valid;             /**< PLAIT_VALID_ALL, or 0 on failure */
  const char* key;           /**< dotted name */
  const char* type;          /**< integer, real, … */
  const char* default_value; /**< "" where the key must be set or is empty */
  const char* minimum;       /**< least value */
  const char* maximum;       /**< greatest value */
  const char* choices;       /**< words separated by commas, "" when any text will do */
  const char* unit;          /**< ms, bytes, … */
  const char* doc;           /**< what the key means, one sentence */
  const char* resume;        /**< "same", "ask" or "free": may it differ when a run is resumed */
  int64_t flags;             /**< PLAIT_KEY_… */
} plait_key_info;

/** One (logical tensor, kind), or one property of the host (kind 0). */
typedef struct plait_entry_info {
  int64_t struct_size; /**< bytes of the struct, set by the host */
  int64_t valid;       /**< PLAIT_ENTRY_… */
  const char* name;    /**< of the tensor or property */
  int64_t kind;        /**< PLAIT_KIND_…, 0: a property of the host */
  int64_t dtype;       /**< PLAIT_DTYPE_… */
  int64_t dims;        /**< 0 … 4 */
  int64_t shape0;      /**< outermost; shapes beyond dims are 1 */
  int64_t shape1;      /**< second */
  int64_t shape2;      /**< third */
  int64_t shape3;      /**< fourth */
  int64_t elements;    /**< product of the shapes */
  int64_t digest;      /**< of all elements, equal in every layout */
  int64_t type;        /**< PLAIT_PROPERTY_…: which of the next three holds the value */
  int64_t integer;     /**< of PLAIT_PROPERTY_INTEGER */
  double real;         /**< of PLAIT_PROPERTY_REAL */
  const char* text;    /**< of PLAIT_PROPERTY_TEXT */
} plait_entry_info;

/** What the files of a dataset hold. */
typedef struct plait_dataset_info {
  int64_t struct_size;     /**< bytes of the struct, set by the host */
  int64_t valid;           /**< PLAIT_VALID_ALL, or 0 on failure */
  int64_t tokens;          /**< in all files of the role */
  int64_t documents;       /**< in all files of the role */
  int64_t samples;         /**< in one epoch */
  int64_t sequence_length; /**< of a sample */
  int64_t fingerprint;     /**< of content and order of the files; compared on resume */
} plait_dataset_info;

/** How far an operation is. */
typedef struct plait_progress {
  int64_t struct_size; /**< bytes of the struct, set by the host */
  int64_t valid;       /**< PLAIT_VALID_ALL, or 0 on failure */
  int64_t state;       /**< PLAIT_OP_… */
  int64_t done_bytes;  /**< written or read so far */
  int64_t total_bytes; /**< 0: not known yet */
} plait_progress;

/** A log record as a callback sees it. All of it is the library's, until the callback returns. */
typedef struct plait_log_record {
  int64_t struct_size;   /**< bytes of the struct, set by the library */
  int64_t valid;         /**< PLAIT_VALID_ALL, or 0 on failure */
  int64_t time_ns;       /**< since 1970 */
  int64_t level;         /**< PLAIT_LOG_… */
  int64_t rank;          /**< -1: none */
  const char* subsystem; /**< part of the library */
  const char* message;   /**< one line */
  int64_t message_bytes; /**< without the NUL behind it */
} plait_log_record;

/**
 * Callbacks of the host; each may be NULL. `log` runs on one library thread, a record at a time,
 * and replaces the ring of plait_context_log_drain. The hooks run in every library thread, first
 * and last. A callback calls nothing of the library but plait_reply_set, and nothing may leave it
 * but its return.
 */
typedef struct plait_host {
  int64_t struct_size; /**< bytes of the struct, set by the host */
  void* user;          /**< handed back, never read */
  /** Takes a log record. */
  void(PLAIT_CALL* log)(void* user, const plait_log_record* record);
  /** A library thread begins; `name` is its name. */
  void(PLAIT_CALL* thread_start)(void* user, const char* name);
  /** A library thread ends. */
  void(PLAIT_CALL* thread_stop)(void* user);
  void* reserved; /**< NULL */
} plait_host;

/**
 * A key-value store of the host, used within plait_group_join_kv and on its thread. Both return 0
 * or a number that becomes HOST_ERROR carrying it. `get` answers by plait_reply_set; a 0 without an
 * answer means that the key did not appear in timeout_ms (it is then asked again, until the call's
 * own limit). Keys are the same for all groups of one size: what an earlier group put must not be
 * seen, so give each try a prefix of its own.
 */
typedef struct plait_kv {
  int64_t struct_size; /**< bytes of the struct, set by the host */
  void* user;          /**< handed back, never read */
  /** Stores a value under a key. */
  int64_t(PLAIT_CALL* put)(void* user, const char* key, const void* value, int64_t bytes);
  /** Waits up to timeout_ms for a key and answers by plait_reply_set. */
  int64_t(PLAIT_CALL* get)(void* user, const char* key, int64_t timeout_ms, plait_reply* reply);
  void* reserved; /**< NULL */
} plait_kv;

/* ---- Library, errors, bytes ---- */

/** Version of the loaded library, coded as PLAIT_API_VERSION with the patch level in the last three
 * digits.
 * @since 0.1 @threads A @collective no @owns none @lifecycle stable */
PLAIT_API int32_t PLAIT_CALL plait_version(void);

/** A fact about the build: "commit", "compiler", "features" (the names of all features that are
 * built, separated by spaces), or "feature.<name>", which is "yes" or "not built". NULL for a key
 * that the library does not know. The text is static.
 * @since 0.1 @threads A @collective no @owns none @lifecycle stable */
PLAIT_API const char* PLAIT_CALL plait_build_info(const char* key);

/** Name of a code without the prefix: "OK", "INVALID_ARGUMENT", …; "UNKNOWN" for other numbers.
 * Static, never NULL.
 * @since 0.1 @threads A @collective no @owns none @lifecycle stable */
PLAIT_API const char* PLAIT_CALL plait_code_name(int32_t code);

/** The code that the failing function returned. NULL reads as PLAIT_OK.
 * @since 0.1 @threads A @collective no @owns none @lifecycle stable */
PLAIT_API int32_t PLAIT_CALL plait_error_code(const plait_error* error);

/** Rank where the error began, -1 when it belongs to none.
 * @since 0.1 @threads A @collective no @owns none @lifecycle stable */
PLAIT_API int32_t PLAIT_CALL plait_error_rank(const plait_error* error);

/** PLAIT_DISPOSITION_…: what the failure left behind. -1 for NULL.
 * @since 0.1 @threads A @collective no @owns none @lifecycle stable */
PLAIT_API int32_t PLAIT_CALL plait_error_disposition(const plait_error* error);

/** One line: "<word>: <sentence>; key=value …". Lives as long as the error.
 * @since 0.1 @threads A @collective no @owns none @lifecycle stable */
PLAIT_API const char* PLAIT_CALL plait_error_message(const plait_error* error);

/** The detail word by itself, for programs: as stable as the code.
 * @since 0.1 @threads A @collective no @owns none @lifecycle stable */
PLAIT_API const char* PLAIT_CALL plait_error_word(const plait_error* error);

/** Part of the library that failed, "" when it did not say.
 * @since 0.1 @threads A @collective no @owns none @lifecycle stable */
PLAIT_API const char* PLAIT_CALL plait_error_subsystem(const plait_error* error);

/** The fields of the message as a JSON object: path, errno, offset, want, got, …
 * @since 0.1 @threads A @collective no @owns none @lifecycle stable */
PLAIT_API const char* PLAIT_CALL plait_error_details(const plait_error* error);

/** What a callback of the host returned when it failed, else 0; -1 for NULL.
 * @since 0.1 @threads A @collective no @owns none @lifecycle stable */
PLAIT_API int64_t PLAIT_CALL plait_error_host_code(const plait_error* error);

/** The bytes, followed by a NUL that is not counted. Any alignment up to 8 holds. They live as long
 * as the handle, whatever they came from. NULL for a wrong handle.
 * @since 0.1 @threads A @collective no @owns none @lifecycle stable */
PLAIT_API const void* PLAIT_CALL plait_bytes_data(const plait_bytes* bytes);

/** Number of bytes, 0 for a wrong handle.
 * @since 0.1 @threads A @collective no @owns none @lifecycle stable */
PLAIT_API int64_t PLAIT_CALL plait_bytes_size(const plait_bytes* bytes);

/** Free a handle; NULL does nothing. Never fails, never waits for a peer. A free during a call on
 * the handle aborts that call. Freeing a running operation neither waits for it nor cancels it.
 * @since 0.1 @threads A @collective no @owns none @lifecycle stable */
PLAIT_API void PLAIT_CALL plait_error_free(plait_error* error);
/** As above. @since 0.1 @threads A @collective no @owns none @lifecycle stable */
PLAIT_API void PLAIT_CALL plait_bytes_free(plait_bytes* bytes);
/** As above. @since 0.1 @threads A @collective no @owns none @lifecycle stable */
PLAIT_API void PLAIT_CALL plait_context_free(plait_context* context);
/** As above. @since 0.1 @threads A @collective no @owns none @lifecycle stable */
PLAIT_API void PLAIT_CALL plait_config_free(plait_config* config);
/** As above. @since 0.1 @threads A @collective no @owns none @lifecycle stable */
PLAIT_API void PLAIT_CALL plait_plan_free(plait_plan* plan);
/** As above. @since 0.1 @threads A @collective no @owns none @lifecycle stable */
PLAIT_API void PLAIT_CALL plait_group_free(plait_group* group);
/** As above. @since 0.1 @threads A @collective no @owns none @lifecycle stable */
PLAIT_API void PLAIT_CALL plait_engine_free(plait_engine* engine);
/** As above. @since 0.1 @threads A @collective no @owns none @lifecycle stable */
PLAIT_API void PLAIT_CALL plait_batch_free(plait_batch* batch);
/** As above. @since 0.1 @threads A @collective no @owns none @lifecycle stable */
PLAIT_API void PLAIT_CALL plait_dataset_free(plait_dataset* dataset);
/** As above. @since 0.1 @threads A @collective no @owns none @lifecycle stable */
PLAIT_API void PLAIT_CALL plait_tokenizer_free(plait_tokenizer* tokenizer);
/** As above. @since 0.1 @threads A @collective no @owns none @lifecycle stable */
PLAIT_API void PLAIT_CALL plait_checkpoint_free(plait_checkpoint* checkpoint);
/** As above. @since 0.1 @threads A @collective no @owns none @lifecycle stable */
PLAIT_API void PLAIT_CALL plait_op_free(plait_op* op);

/* ---- Context: everything else hangs on one ---- */

/** Checks that the library serves `api_version` (pass PLAIT_API_VERSION): another major, a newer
 * minor and, before 1.0, any other minor is FAILED_PRECONDITION/version_mismatch. `host` may be
 * NULL: logs are then drained.
 * @since 0.1 @threads A @collective no @owns context @lifecycle stable */
PLAIT_API int32_t PLAIT_CALL plait_context_create(int32_t api_version, const plait_host* host,
                                                  plait_context** context, plait_error** err);

/** Records above `level` (PLAIT_LOG_…) are dropped where they arise.
 * @since 0.1 @threads A @collective no @owns none @lifecycle stable */
PLAIT_API int32_t PLAIT_CALL plait_context_set_log_level(plait_context* context, int32_t level,
                                                         plait_error** err);

/** Takes up to `max_records` records out of the ring, oldest first: JSON lines with time, level,
 * rank, subsystem and message. A line with `dropped` counts records that the ring lost. Empty
 * where a log callback is set.
 * @since 0.1 @threads A @collective no @owns lines @lifecycle stable */
PLAIT_API int32_t PLAIT_CALL plait_context_log_drain(plait_context* context, int64_t max_records,
                                                     plait_bytes** lines, plait_error** err);

/* ---- Configuration: dotted keys to text ---- */

/** A configuration with every key at its default.
 * @since 0.1 @threads A @collective no @owns config @lifecycle stable */
PLAIT_API int32_t PLAIT_CALL plait_config_create(plait_context* context, plait_config** config,
                                                 plait_error** err);

/** Sets a key; NULL goes back to the default. An unknown key (the nearest known one is named) or a
 * value outside the key's range is INVALID_ARGUMENT/argument.
 * @since 0.1 @threads 1 @collective no @owns none @lifecycle stable */
PLAIT_API int32_t PLAIT_CALL plait_config_set(plait_config* config, const char* key,
                                              const char* value, plait_error** err);

/** The effective value of a key as text: the one set, else the default.
 * @since 0.1 @threads 1 @collective no @owns value @lifecycle stable */
PLAIT_API int32_t PLAIT_CALL plait_config_get(const plait_config* config, const char* key,
                                              plait_bytes** value, plait_error** err);

/** Merges a JSON object; nested objects and dotted keys mean the same. All of it is taken or, on an
 * error, none.
 * @since 0.1 @threads 1 @collective no @owns none @lifecycle stable */
PLAIT_API int32_t PLAIT_CALL plait_config_load(plait_config* config, const void* json,
                                               int64_t bytes, plait_error** err);

/** Sets the model.* keys from config.json of a Hugging Face directory of the GPT-2 or Llama family.
 * What the library cannot express is UNIMPLEMENTED/unsupported_model, with the field.
 * @since 0.1 @threads 1 @collective no @owns none @lifecycle stable */
PLAIT_API int32_t PLAIT_CALL plait_config_load_hf(plait_config* config, const char* directory,
                                                  plait_error** err);

/** The configuration as a JSON object of dotted keys: those that were set or, with is_complete not
 * 0, all of them. network.token is left out.
 * @since 0.1 @threads 1 @collective no @owns json @lifecycle stable */
PLAIT_API int32_t PLAIT_CALL plait_config_dump(const plait_config* config, int32_t is_complete,
                                               plait_bytes** json, plait_error** err);

/** Checks every rule between keys (divisibility and so on). Needs no device.
 * @since 0.1 @threads 1 @collective no @owns none @lifecycle stable */
PLAIT_API int32_t PLAIT_CALL plait_config_check(const plait_config* config, plait_error** err);

/** Number of keys that exist, 0 for a wrong handle.
 * @since 0.1 @threads A @collective no @owns none @lifecycle stable */
PLAIT_API int64_t PLAIT_CALL plait_config_key_count(const plait_config* config);

/** Describes key `index` (0 … count - 1), in the order of the table.
 * @since 0.1 @threads A @collective no @owns none @lifecycle stable */
PLAIT_API int32_t PLAIT_CALL plait_config_key_at(const plait_config* config, int64_t index,
                                                 plait_key_info* info, plait_error** err);

/* ---- Planner: needs no device ---- */

/** Candidates for `world` ranks: with fixed layout.* degrees the one, with `auto` all, best first
 * and rejected ones last.
 * @since 0.1 @threads A @collective no @owns plan @lifecycle stable */
PLAIT_API int32_t PLAIT_CALL plait_plan_create(plait_context* context, const plait_config* config,
                                               int32_t world, plait_plan** plan, plait_error** err);

/** Number of candidates, 0 for a wrong handle.
 * @since 0.1 @threads A @collective no @owns none @lifecycle stable */
PLAIT_API int64_t PLAIT_CALL plait_plan_count(const plait_plan* plan);

/** Describes candidate `index`.
 * @since 0.1 @threads A @collective no @owns none @lifecycle stable */
PLAIT_API int32_t PLAIT_CALL plait_plan_at(const plait_plan* plan, int64_t index,
                                           plait_plan_info* info, plait_error** err);

/** Describes what `rank` (0 … world - 1) holds and does in candidate `index`.
 * @since 0.1 @threads A @collective no @owns none @lifecycle stable */
PLAIT_API int32_t PLAIT_CALL plait_plan_rank_at(const plait_plan* plan, int64_t index, int32_t rank,
                                                plait_rank_info* info, plait_error** err);

/** Text about candidate `index`: "reasons", "estimate", "memory", "schedule" (text form) or
 * "timeline" (Chrome trace).
 * @since 0.1 @threads A @collective no @owns report @lifecycle stable */
PLAIT_API int32_t PLAIT_CALL plait_plan_report(const plait_plan* plan, int64_t index,
                                               const char* kind, plait_bytes** report,
                                               plait_error** err);

/** Writes the layout.* keys of candidate `index` into `config`.
 * @since 0.1 @threads 1 @collective no @owns none @lifecycle stable */
PLAIT_API int32_t PLAIT_CALL plait_plan_apply(const plait_plan* plan, int64_t index,
                                              plait_config* config, plait_error** err);

/* ---- Group: which ranks this process drives, and how processes meet ---- */

/** This process drives ranks rank … rank + local_ranks - 1 of `world`. `config` is copied. Where
 * local_ranks == world the group is complete at once. Numbers that do not fit each other are
 * INVALID_ARGUMENT/topology.
 * @since 0.1 @threads A @collective no @owns group @lifecycle stable */
PLAIT_API int32_t PLAIT_CALL plait_group_create(plait_context* context, const plait_config* config,
                                                int32_t rank, int32_t local_ranks, int32_t world,
                                                plait_group** group, plait_error** err);

/** This process's card, at most 4 KiB: ranks, endpoints, devices, versions, a nonce. Give it to the
 * other processes by any means.
 * @since 0.1 @threads 1 @collective no @owns card @lifecycle stable */
PLAIT_API int32_t PLAIT_CALL plait_group_card(plait_group* group, plait_bytes** card,
                                              plait_error** err);

/** Adds the card of one process. Any order; the own one is allowed.
 * @since 0.1 @threads 1 @collective no @owns none @lifecycle stable */
PLAIT_API int32_t PLAIT_CALL plait_group_add_card(plait_group* group, const void* card,
                                                  int64_t bytes, plait_error** err);

/** Connects to all processes whose cards were added; their ranks must tile 0 … world - 1. On a
 * complete group it does nothing.
 * @since 0.1 @threads C @collective yes @owns none @lifecycle stable */
PLAIT_API int32_t PLAIT_CALL plait_group_commit(plait_group* group, int64_t timeout_ms,
                                                plait_error** err);

/** Exchanges cards through a store of the host, then commits. On a complete group it does nothing.
 * @since 0.1 @threads C @collective yes @owns none @lifecycle stable */
PLAIT_API int32_t PLAIT_CALL plait_group_join_kv(plait_group* group, const plait_kv* kv,
                                                 int64_t timeout_ms, plait_error** err);

/** Exchanges cards by TCP, then commits: the process of rank 0 listens on "host:port" (a literal
 * address or localhost: there alone; any other name: on all interfaces), the others connect to it;
 * key network.token keeps strangers out. On a complete group it does nothing.
 * @since 0.1 @threads C @collective yes @owns none @lifecycle stable */
PLAIT_API int32_t PLAIT_CALL plait_group_join_tcp(plait_group* group, const char* address,
                                                  int64_t timeout_ms, plait_error** err);

/** Answers kv.get; the value is copied. Legal only inside that callback.
 * @since 0.1 @threads A @collective no @owns none @lifecycle stable */
PLAIT_API int32_t PLAIT_CALL plait_reply_set(plait_reply* reply, const void* value, int64_t bytes,
                                             plait_error** err);

/** Measures "links", "compute" or "all" and returns a configuration fragment {"hardware": …} for
 * the planner.
 * @since 0.1 @threads C @collective yes @owns profile @lifecycle stable */
PLAIT_API int32_t PLAIT_CALL plait_group_measure(plait_group* group, const char* what,
                                                 int64_t timeout_ms, plait_bytes** profile,
                                                 plait_error** err);

/** Ends a commit, join or measure that waits: it returns PLAIT_ABORTED.
 * @since 0.1 @threads A @collective no @owns none @lifecycle stable */
PLAIT_API void PLAIT_CALL plait_group_abort(plait_group* group);

/* ---- Engine: one per group, drives all local ranks ---- */

/** Builds model, optimizer state and all working memory, and draws the weights from the seed.
 * `config` is copied and compared across processes.
 * @since 0.1 @threads C @collective yes @owns engine @lifecycle stable */
PLAIT_API int32_t PLAIT_CALL plait_engine_create(plait_group* group, const plait_config* config,
                                                 int64_t timeout_ms, plait_engine** engine,
                                                 plait_error** err);

/** PLAIT_ENGINE_…; 0 for a wrong handle.
 * @since 0.1 @threads A @collective no @owns none @lifecycle stable */
PLAIT_API int32_t PLAIT_CALL plait_engine_state(const plait_engine* engine);

/** Rows, lengths and needs of the next step's batch.
 * @since 0.1 @threads 1 @collective no @owns none @lifecycle stable */
PLAIT_API int32_t PLAIT_CALL plait_engine_batch_spec(const plait_engine* engine,
                                                     plait_batch_spec* spec, plait_error** err);

/** The rows of a global batch of `global_rows` that this process supplies in a LOCAL batch, as
 * runs: `index` 0 … span_count - 1 gives the first global row and the count of a run.
 * @since 0.1 @threads 1 @collective no @owns none @lifecycle stable */
PLAIT_API int32_t PLAIT_CALL plait_engine_batch_span(const plait_engine* engine,
                                                     int64_t global_rows, int64_t index,
                                                     int64_t* first, int64_t* count,
                                                     plait_error** err);

/** One whole optimizer step. A NULL batch draws the next one of the attached "train" dataset. A
 * batch whose targets are all -1 is no error: loss 0, skipped 1. PLAIT_STOPPED: the step was done
 * and a stop is due.
 * @since 0.1 @threads C @collective yes @owns none @lifecycle stable */
PLAIT_API int32_t PLAIT_CALL plait_engine_step(plait_engine* engine, const plait_batch* batch,
                                               int64_t timeout_ms, plait_metrics* metrics,
                                               plait_error** err);

/** Adds the gradients of a host batch to those since the last update. Any cut of a batch into such
 * calls equals one step on the whole. UNIMPLEMENTED/not_built with precision.reduction=canonical,
 * whose sums are of whole steps.
 * @since 0.1 @threads C @collective yes @owns none @lifecycle stable */
PLAIT_API int32_t PLAIT_CALL plait_engine_forward_backward(plait_engine* engine,
                                                           const plait_batch* batch,
                                                           int64_t timeout_ms,
                                                           plait_metrics* metrics,
                                                           plait_error** err);

/** Divides the gradients by the targets since the last update, clips, updates the weights, clears.
 * @since 0.1 @threads C @collective yes @owns none @lifecycle stable */
PLAIT_API int32_t PLAIT_CALL plait_engine_optimizer_step(plait_engine* engine, int64_t timeout_ms,
                                                         plait_metrics* metrics, plait_error** err);

/** Loss alone, without dropout; the state stays as it is. A NULL batch runs evaluate.batches
 * batches of the attached "evaluate" dataset from its start.
 * @since 0.1 @threads C @collective yes @owns none @lifecycle stable */
PLAIT_API int32_t PLAIT_CALL plait_engine_evaluate(plait_engine* engine, const plait_batch* batch,
                                                   int64_t timeout_ms, plait_metrics* metrics,
                                                   plait_error** err);

/** Negative log-likelihood of each target: float32 [rows, sequence_length] into `losses`, 0 where
 * the target is ignored. `bytes` is the size of that memory and must fit exactly.
 * @since 0.1 @threads C @collective yes @owns none @lifecycle stable */
PLAIT_API int32_t PLAIT_CALL plait_engine_score(plait_engine* engine, const plait_batch* batch,
                                                int64_t timeout_ms, void* losses, int64_t bytes,
                                                plait_error** err);

/** Continues `prompt` (at least one id) with the current weights and keys generate.*: at most
 * max_tokens new ids, int32. A window slides over a text longer than the model.
 * @since 0.1 @threads C @collective yes @owns tokens @lifecycle stable */
PLAIT_API int32_t PLAIT_CALL plait_engine_generate(plait_engine* engine, const int32_t* prompt,
                                                   int64_t prompt_count, int64_t max_tokens,
                                                   int64_t timeout_ms, plait_bytes** tokens,
                                                   plait_error** err);

/** Makes a dataset the source of NULL batches for role "train" or "evaluate"; NULL detaches. The
 * engine keeps a reference.
 * @since 0.1 @threads C @collective yes @owns none @lifecycle stable */
PLAIT_API int32_t PLAIT_CALL plait_engine_attach_dataset(plait_engine* engine, const char* role,
                                                         plait_dataset* dataset, int64_t timeout_ms,
                                                         plait_error** err);

/** Sets a key that is mutable at run time; takes effect when the next step, save or load opens.
 * Make the same call in every process.
 * @since 0.1 @threads 1 @collective no @owns none @lifecycle stable */
PLAIT_API int32_t PLAIT_CALL plait_engine_set(plait_engine* engine, const char* key,
                                              const char* value, plait_error** err);

/** Sets a named value that goes into checkpoints. `type` (PLAIT_PROPERTY_…) says which of integer,
 * real and text is read. Names are [a-z0-9_.-]{1,128}; text is at most 64 KiB.
 * @since 0.1 @threads 1 @collective no @owns none @lifecycle stable */
PLAIT_API int32_t PLAIT_CALL plait_engine_set_property(plait_engine* engine, const char* name,
                                                       int32_t type, int64_t integer, double real,
                                                       const char* text, plait_error** err);

/** Value of a counter of report "counters". Answers also after the engine is lost.
 * @since 0.1 @threads A @collective no @owns none @lifecycle stable */
PLAIT_API int32_t PLAIT_CALL plait_engine_counter(const plait_engine* engine, const char* name,
                                                  double* value, plait_error** err);

/** JSON about "config", "ranks", "kernels", "memory", "schedule", "counters", "properties",
 * "operations" or "trace": the trace that key trace.steps began last, its files and idle shares,
 * and the error that kept its file from being written. Answers also after the engine is lost.
 * @since 0.1 @threads A @collective no @owns report @lifecycle stable */
PLAIT_API int32_t PLAIT_CALL plait_engine_report(const plait_engine* engine, const char* kind,
                                                 plait_bytes** report, plait_error** err);

/** Number of (logical tensor, kind) pairs, in name and kind order and equal in every process; 0 for
 * a wrong handle.
 * @since 0.1 @threads A @collective no @owns none @lifecycle stable */
PLAIT_API int64_t PLAIT_CALL plait_engine_tensor_count(const plait_engine* engine);

/** Describes pair `index`; the digest is not filled for a live tensor.
 * @since 0.1 @threads A @collective no @owns none @lifecycle stable */
PLAIT_API int32_t PLAIT_CALL plait_engine_tensor_at(const plait_engine* engine, int64_t index,
                                                    plait_entry_info* info, plait_error** err);

/** Copies a whole tensor, converted to `dtype`, row-major, into `data` of exactly `bytes` bytes and
 * any alignment. NULL data: only take part.
 * @since 0.1 @threads C @collective yes @owns none @lifecycle stable */
PLAIT_API int32_t PLAIT_CALL plait_engine_tensor_read(plait_engine* engine, const char* name,
                                                      int32_t kind, int32_t dtype,
                                                      int64_t timeout_ms, void* data, int64_t bytes,
                                                      plait_error** err);

/** Replaces a whole tensor. The data of the process of rank 0 counts. PARAM and MASTER stay
 * consistent with each other.
 * @since 0.1 @threads C @collective yes @owns none @lifecycle stable */
PLAIT_API int32_t PLAIT_CALL plait_engine_tensor_write(plait_engine* engine, const char* name,
                                                       int32_t kind, int32_t dtype,
                                                       const void* data, int64_t bytes,
                                                       int64_t timeout_ms, plait_error** err);

/** Asks for an orderly stop: one atomic store, legal in a signal handler. The next step finishes in
 * all processes and returns PLAIT_STOPPED; evaluate, score, generate and load stop without effect.
 * @since 0.1 @threads A @collective no @owns none @lifecycle stable */
PLAIT_API void PLAIT_CALL plait_engine_request_stop(plait_engine* engine);

/** Ends at once: calls that run return PLAIT_ABORTED within a second and the engine is lost.
 * @since 0.1 @threads A @collective no @owns none @lifecycle stable */
PLAIT_API void PLAIT_CALL plait_engine_abort(plait_engine* engine);

/** Orderly end: saves finish or are given up by the deadline, peers see no loss.
 * @since 0.1 @threads C @collective yes @owns none @lifecycle stable */
PLAIT_API int32_t PLAIT_CALL plait_engine_close(plait_engine* engine, int64_t timeout_ms,
                                                plait_error** err);

/* ---- Batch: int32, row-major ---- */

/** An empty batch for an engine. Scope GLOBAL: all rows in global order. LOCAL: the rows of
 * plait_engine_batch_span. A call of the engine copies what its ranks read: the batch may be
 * changed or freed once the call has returned, also with an error.
 * @since 0.1 @threads A @collective no @owns batch @lifecycle stable */
PLAIT_API int32_t PLAIT_CALL plait_batch_create(plait_engine* engine, int32_t scope,
                                                plait_batch** batch, plait_error** err);

/** Copies "tokens" [rows, sequence_length + 1] (or [rows, sequence_length] beside "targets"),
 * "targets" [rows, sequence_length] (-1: ignored) or "documents" (shaped as tokens). NULL values
 * remove it. Values are checked when the batch is used: INVALID_ARGUMENT/token_range.
 * @since 0.1 @threads 1 @collective no @owns none @lifecycle stable */
PLAIT_API int32_t PLAIT_CALL plait_batch_set(plait_batch* batch, const char* name,
                                             const int32_t* values, int64_t rows, int64_t columns,
                                             plait_error** err);

/** The batch's own memory for `name`, 64-byte aligned, to be filled in place. It keeps its content
 * and address until the shape changes or the batch is freed.
 * @since 0.1 @threads 1 @collective no @owns none @lifecycle stable */
PLAIT_API int32_t PLAIT_CALL plait_batch_map(plait_batch* batch, const char* name, int64_t rows,
                                             int64_t columns, int32_t** values, plait_error** err);

/* ---- Dataset and tokenizer ---- */

/** Opens the files of data.train (role "train") or data.evaluate ("evaluate"): flat uint16 or int32
 * files, .bin/.idx pairs, weighted blends. Damaged files are DATA_LOSS/dataset_….
 * @since 0.1 @threads A @collective no @owns dataset @lifecycle stable */
PLAIT_API int32_t PLAIT_CALL plait_dataset_open(plait_context* context, const plait_config* config,
                                                const char* role, plait_dataset** dataset,
                                                plait_error** err);

/** Sizes and fingerprint.
 * @since 0.1 @threads A @collective no @owns none @lifecycle stable */
PLAIT_API int32_t PLAIT_CALL plait_dataset_describe(const plait_dataset* dataset,
                                                    plait_dataset_info* info, plait_error** err);

/** Samples first_sample … first_sample + count - 1 of "tokens" or "documents" in training order:
 * int32 [count, sequence_length + 1].
 * @since 0.1 @threads A @collective no @owns values @lifecycle stable */
PLAIT_API int32_t PLAIT_CALL plait_dataset_read(const plait_dataset* dataset, const char* name,
                                                int64_t first_sample, int64_t count,
                                                plait_bytes** values, plait_error** err);

/** Kind "byte" (directory NULL) or "gpt2" with vocab.bpe and encoder.json, or merges.txt and
 * vocab.json, in `directory`.
 * @since 0.1 @threads A @collective no @owns tokenizer @lifecycle stable */
PLAIT_API int32_t PLAIT_CALL plait_tokenizer_open(plait_context* context, const char* kind,
                                                  const char* directory,
                                                  plait_tokenizer** tokenizer, plait_error** err);

/** Number of ids, 0 for a wrong handle.
 * @since 0.1 @threads A @collective no @owns none @lifecycle stable */
PLAIT_API int64_t PLAIT_CALL plait_tokenizer_vocab_size(const plait_tokenizer* tokenizer);

/** Ids of a text, int32. Any bytes are allowed.
 * @since 0.1 @threads A @collective no @owns tokens @lifecycle stable */
PLAIT_API int32_t PLAIT_CALL plait_tokenizer_encode(const plait_tokenizer* tokenizer,
                                                    const void* text, int64_t bytes,
                                                    plait_bytes** tokens, plait_error** err);

/** Text of ids; may end in half a character.
 * @since 0.1 @threads A @collective no @owns text @lifecycle stable */
PLAIT_API int32_t PLAIT_CALL plait_tokenizer_decode(const plait_tokenizer* tokenizer,
                                                    const int32_t* tokens, int64_t count,
                                                    plait_bytes** text, plait_error** err);

/** Encodes a text file into a token file with several threads, by keys tokenize.*; the output
 * appears whole or not at all. `options` may be NULL.
 * @since 0.1 @threads A @collective no @owns op @lifecycle stable */
PLAIT_API int32_t PLAIT_CALL plait_tokenizer_encode_file(const plait_tokenizer* tokenizer,
                                                         const plait_config* options,
                                                         const char* input, const char* output,
                                                         plait_op** op, plait_error** err);

/* ---- Checkpoint: a root, one step directory, or a Hugging Face directory (weights alone) ---- */

/** Takes a snapshot and writes it as a new step of `root`; returns after the snapshot. The
 * operation ends when the step is durable.
 * @since 0.1 @threads C @collective yes @owns op @lifecycle stable */
PLAIT_API int32_t PLAIT_CALL plait_checkpoint_save(plait_engine* engine, const char* root,
                                                   int64_t timeout_ms, plait_op** op,
                                                   plait_error** err);

/** Loads state into a live engine, whatever layout saved it. The JSON report names the step that
 * was taken, and newer ones that were skipped, with the reason.
 * @since 0.1 @threads C @collective yes @owns report @lifecycle stable */
PLAIT_API int32_t PLAIT_CALL plait_checkpoint_load(plait_engine* engine, const char* path,
                                                   int64_t timeout_ms, plait_bytes** report,
                                                   plait_error** err);

/** JSON about the steps under `root`.
 * @since 0.1 @threads A @collective no @owns report @lifecycle stable */
PLAIT_API int32_t PLAIT_CALL plait_checkpoint_list(plait_context* context, const char* root,
                                                   plait_bytes** report, plait_error** err);

/** Opens a checkpoint or a Hugging Face directory without engine or device.
 * @since 0.1 @threads A @collective no @owns checkpoint @lifecycle stable */
PLAIT_API int32_t PLAIT_CALL plait_checkpoint_open(plait_context* context, const char* path,
                                                   plait_checkpoint** checkpoint,
                                                   plait_error** err);

/** JSON about what is open: format, step, model, layout, optimizer, data position, digests, as far
 * as the format has them.
 * @since 0.1 @threads 1 @collective no @owns report @lifecycle stable */
PLAIT_API int32_t PLAIT_CALL plait_checkpoint_report(const plait_checkpoint* checkpoint,
                                                     plait_bytes** report, plait_error** err);

/** Number of entries, 0 for a wrong handle.
 * @since 0.1 @threads A @collective no @owns none @lifecycle stable */
PLAIT_API int64_t PLAIT_CALL plait_checkpoint_entry_count(const plait_checkpoint* checkpoint);

/** Describes entry `index`: (logical tensor, kind) in name and kind order, then properties.
 * @since 0.1 @threads 1 @collective no @owns none @lifecycle stable */
PLAIT_API int32_t PLAIT_CALL plait_checkpoint_entry_at(const plait_checkpoint* checkpoint,
                                                       int64_t index, plait_entry_info* info,
                                                       plait_error** err);

/** Sets a key for later calls on what is open; NULL is its default. checkpoint.mmap alone: true
 * says that the storage is trusted, since a file that is cut short under a mapping ends the
 * process.
 * @since 0.1 @threads 1 @collective no @owns none @lifecycle stable */
PLAIT_API int32_t PLAIT_CALL plait_checkpoint_set(plait_checkpoint* checkpoint, const char* key,
                                                  const char* value, plait_error** err);

/** One whole tensor, verified, row-major, in the stored dtype; the memory lives as long as the
 * handle and is not to be written. With checkpoint.mmap it is the file itself where the file holds
 * the tensor in one piece, else a copy.
 * @since 0.1 @threads 1 @collective no @owns none @lifecycle stable */
PLAIT_API int32_t PLAIT_CALL plait_checkpoint_map(plait_checkpoint* checkpoint, const char* name,
                                                  int32_t kind, const void** data, int64_t* bytes,
                                                  plait_error** err);

/** Reads and checks everything; damage is DATA_LOSS with all of it in the details. is_full not 0:
 * gaps and unread parts too.
 * @since 0.1 @threads 1 @collective no @owns op @lifecycle stable */
PLAIT_API int32_t PLAIT_CALL plait_checkpoint_verify(const plait_checkpoint* checkpoint,
                                                     int32_t is_full, plait_op** op,
                                                     plait_error** err);

/** Writes what is open as a checkpoint under `root` in the layout of `layout`.
 * @since 0.1 @threads 1 @collective no @owns op @lifecycle stable */
PLAIT_API int32_t PLAIT_CALL plait_checkpoint_convert(const plait_checkpoint* checkpoint,
                                                      const plait_config* layout, const char* root,
                                                      plait_op** op, plait_error** err);

/** Writes a Hugging Face directory by keys export.*; it appears whole or not at all. `options` may
 * be NULL.
 * @since 0.1 @threads 1 @collective no @owns op @lifecycle stable */
PLAIT_API int32_t PLAIT_CALL plait_checkpoint_export_hf(const plait_checkpoint* checkpoint,
                                                        const plait_config* options,
                                                        const char* directory, plait_op** op,
                                                        plait_error** err);

/* ---- Operation: work that outlives its call ---- */

/** Waits for the end and returns how it ended. Past timeout_ms (0 polls) it is
 * DEADLINE_EXCEEDED/deadline and the operation runs on.
 * @since 0.1 @threads A @collective no @owns none @lifecycle stable */
PLAIT_API int32_t PLAIT_CALL plait_op_wait(plait_op* op, int64_t timeout_ms, plait_error** err);

/** State and bytes done; total_bytes is 0 as long as it is not known.
 * @since 0.1 @threads A @collective no @owns none @lifecycle stable */
PLAIT_API int32_t PLAIT_CALL plait_op_progress(const plait_op* op, plait_progress* progress,
                                               plait_error** err);

/** The JSON report of an operation that succeeded; FAILED_PRECONDITION/busy while it runs.
 * @since 0.1 @threads A @collective no @owns report @lifecycle stable */
PLAIT_API int32_t PLAIT_CALL plait_op_result(const plait_op* op, plait_bytes** report,
                                             plait_error** err);

/** Asks it to end; it becomes CANCELLED unless it was done first. Nothing half-written stays.
 * @since 0.1 @threads A @collective no @owns none @lifecycle stable */
PLAIT_API void PLAIT_CALL plait_op_cancel(plait_op* op);

#ifdef __cplusplus
}
#endif

#endif /* PLAIT_PLAIT_H */
