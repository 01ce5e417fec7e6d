#include "engine/trainer/loader.h"

#include <algorithm>
#include <charconv>
#include <cstring>

#include "checkpoint/hf_directory.h"
#include "checkpoint/store/root.h"
#include "engine/comm/announcement.h"
#include "kernels/base/json_text.h"

namespace plait {
namespace {

constexpr const char* kHuggingFaceName = "huggingface";
constexpr const char* kOneStepName = "step";  // a path of one step

/// Faults of a step. Another one may do better; what a run forbids is no fault of the step.
bool is_fault_of_step(const Error& error) {
  switch (error.code()) {
    case Code::kDataLoss:
    case Code::kNotFound:
    case Code::kPermissionDenied:
    case Code::kUnavailable:
    case Code::kUnimplemented:
      return error.disposition() < Disposition::kEngineLost;
    default:
      return false;
  }
}

bool is_final(const Error& error) { return !is_fault_of_step(error); }

std::string last_part(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path.substr(path.rfind('/') + 1);
}

int64_t number_of(const std::string& text) {
  int64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

/// A step whose manifest is damaged has no sequence; where nothing older may be taken, its number
/// decides.
void refuse_damaged_newest(const RootListing& listing, const CheckpointConfig& checkpoint,
                           const std::string& root) {
  if (checkpoint.fallback || listing.bad.empty()) return;
  const BadStep& bad = listing.bad.back();
  if (!listing.steps.empty() && listing.steps[0].name > bad.name) return;
  throw Error("corrupt", "the newest step is damaged")
      .with("path", join_path(root, bad.name))
      .with("reason", bad.reason)
      .with("checkpoint.fallback", false);
}

/// The text up to the next newline, taken out.
std::string take_line(std::string* text) {
  const size_t end = std::min(text->find('\n'), text->size());
  std::string line = text->substr(0, end);
  text->erase(0, std::min(end + 1, text->size()));
  return line;
}

}  // namespace

Loader::Loader(RankSet& ranks, const EngineOptions& engine, Options options)
    : ranks_(ranks),
      engine_(engine),
      options_(std::move(options)),
      rounds_(ranks, engine, options_.call, options_.limit_ms) {}

Loader::~Loader() = default;

void Loader::run() {
  while (!choose() || !prove()) {
  }
  if (!is_in_place_) copy();
}

void Loader::list() {
  Files& files = engine_.env->files;
  const std::string& path = options_.path;
  candidates_.clear();
  Candidate only;
  only.is_fresh = options_.is_fresh;
  if (HfDirectory::is_one(files, path)) {
    only.name = kHuggingFaceName;
    candidates_ = {only};
  } else if (parse_step_name(last_part(path)) || files.exists(join_path(path, "MANIFEST"))) {
    only.name = kOneStepName;
    candidates_ = {only};
  } else {
    const RootListing listing = list_root(files, path);
    is_root_ = true;
    only.is_root = true;
    refuse_damaged_newest(listing, options_.run.settings->checkpoint, path);
    for (const BadStep& bad : listing.bad) {
      skipped_.push_back({bad.name, bad.reason.substr(0, bad.reason.find(':')), bad.reason});
    }
    for (const StepEntry& entry : listing.steps) {
      only.name = entry.name;
      only.order = {entry.sequence, entry.step};
      candidates_.push_back(only);
    }
  }
  is_listed_ = true;
}

/// In this process: its newest candidate, opened and compared, with what was found.
Loader::Candidate Loader::open_next() {
  if (!is_listed_) list();
  Candidate candidate;
  candidate.is_fresh = options_.is_fresh;
  candidate.is_root = is_root_;
  if (candidates_.empty()) return candidate;
  candidate = candidates_.front();
  try {
    open(&candidate);
  } catch (const Error& error) {
    candidate.error = error;
  }
  return candidate;
}

void Loader::open(Candidate* candidate) {
  Files& files = engine_.env->files;
  const std::string& path = options_.path;
  if (candidate->name == kHuggingFaceName && !is_root_) {
    source_ = open_hugging_face_source(files, path);
  } else {
    source_ = open_step_source(files, is_root_ ? join_path(path, candidate->name) : path,
                               options_.run.settings->checkpoint, engine_.hooks);
  }
  decision_ = source_->compare(options_.run);
  candidate->identity = source_->identity() + (decision_.is_weights_only ? " weights" : " whole");
}

std::string Loader::encode(const Candidate& candidate) {
  std::string text = std::string(candidate.is_fresh ? "1" : "0") + "\n";
  text += std::string(candidate.is_root ? "1" : "0") + "\n" + candidate.name + "\n";
  text += std::to_string(candidate.order.first) + "\n" + std::to_string(candidate.order.second);
  text += "\n" + candidate.identity + "\n";
  if (candidate.error) text += encode_error(*candidate.error);
  return text;
}

Loader::Candidate Loader::decode(const Answer& answer) {
  std::string rest = answer.text;
  Candidate candidate;
  candidate.is_fresh = take_line(&rest) == "1";
  candidate.is_root = take_line(&rest) == "1";
  candidate.name = take_line(&rest);
  candidate.order.first = static_cast<uint64_t>(number_of(take_line(&rest)));
  candidate.order.second = number_of(take_line(&rest));
  candidate.identity = take_line(&rest);
  if (rest.empty()) return candidate;
  Error error("invariant", "a process failed and could not say why");
  decode_error(rest, &error);
  candidate.error = std::move(error);
  return candidate;
}

/// One round: whether all processes have opened the same step. If not, the newest of their
/// candidates is dropped by all.
bool Loader::choose() {
  source_.reset();
  const auto work = [&](const std::atomic<bool>&) { return encode(open_next()); };
  const std::vector<Answer> answers = rounds_.run(work);
  if (const Error* error = first_error(answers, is_final)) throw Error(*error);
  std::vector<Candidate> seen;
  for (const Answer& answer : answers) seen.push_back(decode(answer));
  is_in_place_ = may_fall_back_ = true;
  for (const Candidate& one : seen) {
    is_in_place_ = is_in_place_ && one.is_fresh;
    may_fall_back_ = may_fall_back_ && one.is_root;
  }
  may_fall_back_ = may_fall_back_ && options_.run.settings->checkpoint.fallback;
  const auto newest =
      std::max_element(seen.begin(), seen.end(), [](const Candidate& a, const Candidate& b) {
        return std::make_pair(!a.name.empty(), a.order) < std::make_pair(!b.name.empty(), b.order);
      });
  if (newest->name.empty()) throw nothing_left();
  chosen_ = *newest;
  // What forbids the load comes before what is wrong with a step.
  for (const Candidate& one : seen) {
    if (one.error && is_final(*one.error)) throw Error(*one.error);
  }
  for (size_t peer = 0; peer < seen.size(); ++peer) {
    const Candidate& one = seen[peer];
    const bool is_same = one.name == newest->name && one.order == newest->order;
    if (is_same && one.error) {
      drop(chosen_, *one.error);
      return false;
    }
    if (is_same && (one.identity == newest->identity || newest->error)) continue;
    drop(chosen_, Error("no_checkpoint", "not every process sees the same step")
                      .with("step", newest->name)
                      .with("rank", ranks_.world().peers()[peer].first_rank));
    return false;
  }
  return true;
}

void Loader::collect_pieces() {
  pieces_.clear();
  for (int64_t local = 0; local < ranks_.size(); ++local) {
    Rank& rank = ranks_.rank(local);
    const std::vector<StatePiece> own =
        state_pieces(rank, sorted_tensors(rank.tensors()), decision_.is_weights_only);
    pieces_.insert(pieces_.end(), own.begin(), own.end());
  }
}

/// One round: whether the chosen step can be read and holds what was saved.
///
/// Each process proves what it reads. What `full` adds (gaps, headers, slices that nobody needs,
/// files that no one names) is a property of the files, which all processes see in one directory:
/// one of them looks at it, so that many do not read every byte of the step. Its error is theirs.
bool Loader::prove() {
  collect_pieces();
  if (is_in_place_) rounds_.touch();
  const bool wants_all = options_.run.settings->checkpoint.verify == VerifyChoice::kFull &&
                         ranks_.world().own_peer() == 0;
  const auto work = [&](const std::atomic<bool>& is_cancelled) {
    if (wants_all) source_->verify(is_cancelled);
    own_sums_ = source_->read(pieces_, is_in_place_, is_cancelled);
    return std::string(reinterpret_cast<const char*>(own_sums_.data()),
                       own_sums_.size() * sizeof(uint64_t));
  };
  const std::vector<Answer> answers = rounds_.run(work);
  if (const Error* error = first_error(answers, is_final)) {
    drop(chosen_, *error);
    return false;
  }
  DigestSums sums(own_sums_.size());
  for (const Answer& answer : answers) {
    check(answer.text.size() == sums.size() * sizeof(uint64_t), "all processes sum up the same");
    for (size_t i = 0; i < sums.size(); ++i) {
      uint64_t one;
      std::memcpy(&one, answer.text.data() + i * sizeof one, sizeof one);
      sums[i] += one;
    }
  }
  try {
    source_->prove(sums);
  } catch (const Error& error) {
    drop(chosen_, error);
    return false;
  }
  return true;
}

/// The second pass, into live state that was not fresh: from here on an error loses the engine.
void Loader::copy() {
  rounds_.touch();
  rounds_.commit();
  const auto work = [&](const std::atomic<bool>& is_cancelled) {
    if (source_->read(pieces_, true, is_cancelled) != own_sums_) {
      throw Error("digest_mismatch", "the step has changed while it was loaded")
          .with("path", options_.path);
    }
    return std::string();
  };
  const std::vector<Answer> answers = rounds_.run(work);
  if (const Error* error = first_error(answers, is_final)) {
    throw Error(*error).disposition(Disposition::kEngineLost);
  }
}

/// Turns to the next older step, or ends the load.
void Loader::drop(const Candidate& candidate, const Error& error) {
  if (!may_fall_back_ || is_final(error)) throw Error(error);
  skipped_.push_back({candidate.name, error.word(), error.message()});
  source_.reset();
  while (!candidates_.empty() && candidates_.front().order >= candidate.order) {
    candidates_.erase(candidates_.begin());
  }
}

Error Loader::nothing_left() const {
  JsonArray rows;
  for (const SkippedStep& step : skipped_) {
    rows.add(JsonObject()
                 .field("name", step.name)
                 .field("word", step.word)
                 .field("reason", step.reason)
                 .text());
  }
  return Error("no_checkpoint", "no step of the directory can be loaded")
      .with("path", options_.path)
      .with_raw("skipped", rows.text());
}

}  // namespace plait
