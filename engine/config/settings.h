// The configuration as plain structs, one per group of keys, filled from a Config.
//
// Each make_… function reads effective values; it throws `argument` naming the key when a required
// one is missing. Rules between keys are engine/config/checks.h. Enumerations are called …Choice
// and list the words of their key in the order of the table.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/config/config.h"
#include "kernels/base/dtype.h"

namespace plait {

enum class FamilyChoice : int32_t { kGpt2, kLlama };
enum class ScheduleChoice : int32_t {
  kOneForwardOneBackward,
  kInterleaved,
  kGpipe,
  kZeroBubble,
};
enum class RecomputeChoice : int32_t { kNone, kSelective, kFull };
enum class MatmulChoice : int32_t { kNative, kBf16x3, kTf32 };
enum class ReductionChoice : int32_t { kOrdered, kCanonical };
enum class LrScheduleChoice : int32_t { kConstant, kLinear, kCosine, kWsd };
enum class LrTailChoice : int32_t { kLinear, kCosine, kExponential, kSqrt };
enum class NonfiniteChoice : int32_t { kError, kSkip };
enum class DivergenceChoice : int32_t { kError, kMetric };
enum class TokenTypeChoice : int32_t { kAuto, kUint16, kInt32 };
enum class VerifyChoice : int32_t { kSlices, kFull };
enum class BusyChoice : int32_t { kWait, kSkip, kError };
enum class ExistingChoice : int32_t { kError, kReplace };
enum class CommitChoice : int32_t { kRename, kManifestLast };
enum class NumericsChoice : int32_t { kWarn, kStrict };
enum class TransportChoice : int32_t { kAuto, kShm, kTcp, kMpi };
enum class TokenFormatChoice : int32_t { kFlat, kIndexed };
enum class DocumentsChoice : int32_t { kFile, kLine };

/// Names as in the symbol table of PTD-P: L layers, H hidden, A heads, G key/value heads,
/// D head size, F feed-forward, V vocabulary.
struct ModelConfig {
  FamilyChoice family = FamilyChoice::kGpt2;
  int64_t layers = 0;
  int64_t hidden = 0;
  int64_t heads = 0;
  int64_t key_value_heads = 0;
  int64_t head_size = 0;
  int64_t feed_forward = 0;
  int64_t vocab_size = 0;
  int64_t sequence_length = 0;  ///< longest; rows of the position table of gpt2
  bool tied = false;            ///< the head is the token embedding
  double norm_epsilon = 0;
  double rope_base = 0;    ///< llama
  double initial_std = 0;  ///< standard deviation of drawn weights
};

struct LayoutConfig {
  int64_t tensor = 1;
  int64_t pipeline = 1;
  int64_t data = 1;
  int64_t interleave = 1;   ///< chunks per rank
  int64_t micro_batch = 1;  ///< samples
  ScheduleChoice schedule = ScheduleChoice::kOneForwardOneBackward;
  int64_t zero = 0;  ///< 0 … 3
  bool sequence_parallel = false;
  RecomputeChoice recompute = RecomputeChoice::kNone;
  int64_t recompute_layers = 1;       ///< layers per run of `full`
  std::vector<int64_t> stage_layers;  ///< by virtual stage; empty: equal counts
  bool scatter_gather = true;
  bool overlap = true;
  /// Keys left to the planner (`auto`). Their fields above hold the table's defaults and mean
  /// nothing: whoever runs a layout refuses it unless this is empty.
  std::vector<std::string> auto_keys;
};

struct PrecisionConfig {
  DType compute = DType::kFloat32;
  DType residual = DType::kFloat32;  ///< dtype of the residual stream
  MatmulChoice matmul = MatmulChoice::kNative;
  bool flush_to_zero = false;
  ReductionChoice reduction = ReductionChoice::kOrdered;
  int64_t canonical_tensor = 1;               ///< parts of a layer's sums; 1 unless canonical
  int64_t canonical_data = 1;                 ///< parts of a batch's; 1 unless canonical
  std::optional<double> constant_loss_scale;  ///< none: dynamic; only fp16 scales
  double loss_scale_start = 0;
  int64_t loss_scale_window = 0;      ///< clean steps before the scale doubles
  int64_t loss_scale_hysteresis = 0;  ///< overflows before it halves
  double loss_scale_min = 0;
  double loss_scale_max = 0;
};

struct OptimizerConfig {
  double lr = 0;
  double min_lr = 0;
  double weight_decay = 0;
  double beta1 = 0;
  double beta2 = 0;
  double epsilon = 0;
  double clip_grad_norm = 0;  ///< 0: off
  LrScheduleChoice lr_schedule = LrScheduleChoice::kConstant;
  LrTailChoice lr_tail_shape = LrTailChoice::kLinear;
  int64_t lr_warmup_steps = 0;
  int64_t lr_decay_steps = 0;  ///< warm-up included; 0: none, legal for `constant` only
  int64_t lr_tail_steps = 0;   ///< of wsd
};

/// Batch size as a function of the samples consumed: min(first + increment·⌊C/samples⌋, global).
struct BatchRamp {
  int64_t first = 0;
  int64_t increment = 0;
  int64_t samples = 0;
};

struct TrainConfig {
  int64_t global_batch = 0;  ///< samples
  int64_t sequence_length = 0;
  std::optional<BatchRamp> batch_ramp;
  double dropout = 0;
  double attention_dropout = 0;
  NonfiniteChoice on_nonfinite = NonfiniteChoice::kError;
  DivergenceChoice on_divergence = DivergenceChoice::kError;
  int64_t replica_check_every = 0;  ///< steps; 0: never

  /// Samples of the step that starts after `samples` consumed ones. Saturates, never overflows.
  int64_t batch_at(int64_t samples) const;
};

struct DataConfig {
  std::vector<std::string> train;     ///< paths; empty: the host feeds batches
  std::vector<std::string> evaluate;  ///< paths
  std::vector<double> train_weights;  ///< as many as paths, 1 each where none were given
  std::vector<double> evaluate_weights;
  std::vector<double> split;  ///< shares of train, evaluate, rest; one to three
  bool shuffle = true;
  bool isolate_documents = false;
  TokenTypeChoice token_type = TokenTypeChoice::kAuto;
};

struct EvaluateConfig {
  int64_t batches = 0;
};

struct GenerateConfig {
  double temperature = 1;
  int64_t top_k = 0;  ///< 0: off
  double top_p = 1;
  int64_t stop_token = -1;  ///< −1: none
  int64_t seed = 0;
  int64_t max_tokens = 0;  ///< read by hosts
};

struct TimeoutConfig {
  int64_t init_ms = 0;
  int64_t heartbeat_ms = 0;
  int64_t frozen_ms = 0;
  int64_t stall_min_ms = 0;
  int64_t first_steps_ms = 0;
  int64_t control_ms = 0;
  int64_t desync_ms = 0;
  int64_t close_ms = 0;
  double stall_warn = 0;  ///< multiples of the median step
  double stall_fail = 0;
};

struct CheckpointConfig {
  VerifyChoice verify = VerifyChoice::kSlices;
  bool fallback = true;
  BusyChoice on_busy = BusyChoice::kWait;
  ExistingChoice on_existing = ExistingChoice::kError;
  CommitChoice commit = CommitChoice::kRename;
  NumericsChoice numerics = NumericsChoice::kWarn;
  int64_t max_staged = 0;
  int64_t keep_last = 0;
  int64_t keep_every = 0;
  int64_t io_threads = 0;
  std::optional<int64_t> write_minor;  ///< none: the newest that this library writes
  int64_t save_timeout_ms = 0;
  int64_t load_timeout_ms = 0;
  bool weights_only = false;
  bool check_finite = false;
  bool mmap = false;
  std::vector<std::string> allow_change;  ///< keys or prefixes that a resume may change
};

struct DeviceConfig {
  std::string device;            ///< `cpu` or `cuda`
  std::vector<int64_t> devices;  ///< number for each local rank; empty: 0, 1, …
  int64_t threads = 0;           ///< of the process; 0: the library chooses
  std::string isa;               ///< `auto`, or the most that CPU kernels may use
};

struct NetworkConfig {
  TransportChoice transport = TransportChoice::kAuto;
  std::string token;  ///< secret
};

struct TraceConfig {
  std::string directory;  ///< empty: none
  int64_t steps = 0;
};

struct ExportConfig {
  DType dtype = DType::kFloat32;
  int64_t max_shard_bytes = 0;
};

struct TokenizeConfig {
  TokenFormatChoice format = TokenFormatChoice::kFlat;
  DocumentsChoice documents = DocumentsChoice::kFile;
  bool special = false;  ///< marker text becomes its id
};

/// For hosts and the planner alone: no engine reads it.
struct PlannerConfig {
  int64_t tokens = 0;               ///< of the whole run; 0: not asked
  int64_t top = 0;                  ///< layouts that are wanted
  std::string profile;              ///< software whose steps are priced
  std::vector<std::string> search;  ///< further families of layouts: uneven, gpipe, zero3
};

struct Settings {
  ModelConfig model;
  LayoutConfig layout;
  PrecisionConfig precision;
  OptimizerConfig optimizer;
  TrainConfig train;
  DataConfig data;
  EvaluateConfig evaluate;
  GenerateConfig generate;
  TimeoutConfig timeout;
  CheckpointConfig checkpoint;
  DeviceConfig device;
  NetworkConfig network;
  TraceConfig trace;
  ExportConfig export_hf;  ///< keys export.*
  TokenizeConfig tokenize;
  uint64_t seed = 0;
};

ModelConfig make_model(const Config& config);
LayoutConfig make_layout(const Config& config);
PrecisionConfig make_precision(const Config& config);
OptimizerConfig make_optimizer(const Config& config);
TrainConfig make_train(const Config& config);
DataConfig make_data(const Config& config);
EvaluateConfig make_evaluate(const Config& config);
GenerateConfig make_generate(const Config& config);
TimeoutConfig make_timeout(const Config& config);
CheckpointConfig make_checkpoint(const Config& config);
DeviceConfig make_device(const Config& config);
NetworkConfig make_network(const Config& config);
TraceConfig make_trace(const Config& config);
ExportConfig make_export(const Config& config);
TokenizeConfig make_tokenize(const Config& config);
PlannerConfig make_planner(const Config& config);
Settings make_settings(const Config& config);

/// V rounded up to a multiple of 128 · tensor.
int64_t padded_vocabulary(int64_t vocabulary, int64_t tensor);

}  // namespace plait
