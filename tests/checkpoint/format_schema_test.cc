// What flatc makes of the schemas: sizes and places in structs, ids and defaults in tables. None of
// it may ever change.
#include <catch2/catch.hpp>
#include <cstring>
#include <string>

#include "kernels/base/dtype.h"
#include "tests/checkpoint/format_fixture.h"

namespace plait {
namespace {

static_assert(sizeof(wire::Id128) == 16 && alignof(wire::Id128) == 8);
static_assert(sizeof(wire::Slice) == 104 && alignof(wire::Slice) == 8);
static_assert(sizeof(wire::TensorState) == 24 && alignof(wire::TensorState) == 8);
static_assert(sizeof(wire::ShardFile) == 48 && alignof(wire::ShardFile) == 8);

/// The constant of a field with this id.
constexpr int field_place(int id) { return 4 + 2 * id; }

static_assert(wire::Manifest::VT_FORMAT == field_place(0));
static_assert(wire::Manifest::VT_SAVE_ID == field_place(1));
static_assert(wire::Manifest::VT_STATE_DIGEST == field_place(2));
static_assert(wire::Manifest::VT_LAYOUT == field_place(3));
static_assert(wire::Manifest::VT_CONFIG == field_place(4));
static_assert(wire::Manifest::VT_PROGRESS == field_place(5));
static_assert(wire::Manifest::VT_SCALER == field_place(6));
static_assert(wire::Manifest::VT_RNG == field_place(7));
static_assert(wire::Manifest::VT_DATA == field_place(8));
static_assert(wire::Manifest::VT_GROUPS == field_place(9));
static_assert(wire::Manifest::VT_TENSORS == field_place(10));
static_assert(wire::Manifest::VT_FILES == field_place(11));
static_assert(wire::Manifest::VT_PROPERTIES == field_place(12));

static_assert(wire::Format::VT_MAJOR == field_place(0));
static_assert(wire::Format::VT_MINOR == field_place(1));
static_assert(wire::Format::VT_MIN_READER_MINOR == field_place(2));
static_assert(wire::Format::VT_REQUIRED == field_place(3));
static_assert(wire::Format::VT_OPTIONAL == field_place(4));
static_assert(wire::Format::VT_WRITER == field_place(5));
static_assert(wire::Format::VT_NUMERICS == field_place(6));
static_assert(wire::Format::VT_ALIGN_LOG2 == field_place(7));

static_assert(wire::Layout::VT_TENSOR == field_place(0));
static_assert(wire::Layout::VT_PIPELINE == field_place(1));
static_assert(wire::Layout::VT_DATA == field_place(2));
static_assert(wire::Layout::VT_INTERLEAVE == field_place(3));
static_assert(wire::Layout::VT_ZERO == field_place(4));
static_assert(wire::Layout::VT_SEQUENCE_PARALLEL == field_place(5));
static_assert(wire::Layout::VT_STAGE_LAYERS == field_place(6));

static_assert(wire::Progress::VT_STEP == field_place(0));
static_assert(wire::Progress::VT_UPDATES == field_place(1));
static_assert(wire::Progress::VT_SAMPLES == field_place(2));
static_assert(wire::Progress::VT_TOKENS == field_place(3));
static_assert(wire::Progress::VT_SKIPPED == field_place(4));
static_assert(wire::Progress::VT_OVERFLOWS == field_place(5));
static_assert(wire::Progress::VT_LR == field_place(6));

static_assert(wire::Scaler::VT_SCALE == field_place(0));
static_assert(wire::Scaler::VT_GOOD_STEPS == field_place(1));
static_assert(wire::Scaler::VT_HYSTERESIS_LEFT == field_place(2));

static_assert(wire::Rng::VT_ALGORITHM == field_place(0));
static_assert(wire::Rng::VT_KEY_VERSION == field_place(1));
static_assert(wire::Rng::VT_SEED == field_place(2));

static_assert(wire::Dataset::VT_FINGERPRINT == field_place(0));
static_assert(wire::Dataset::VT_TOKENS == field_place(1));
static_assert(wire::Dataset::VT_DRAWN == field_place(2));
static_assert(wire::Dataset::VT_WEIGHT == field_place(3));
static_assert(wire::Dataset::VT_CREDIT == field_place(4));

static_assert(wire::Data::VT_ORDER == field_place(0));
static_assert(wire::Data::VT_ORDER_VERSION == field_place(1));
static_assert(wire::Data::VT_SEED == field_place(2));
static_assert(wire::Data::VT_PARTS == field_place(3));

static_assert(wire::Group::VT_NAME == field_place(0));
static_assert(wire::Group::VT_ALGORITHM == field_place(1));
static_assert(wire::Group::VT_LR_SCALE == field_place(2));
static_assert(wire::Group::VT_WEIGHT_DECAY == field_place(3));
static_assert(wire::Group::VT_BETA1 == field_place(4));
static_assert(wire::Group::VT_BETA2 == field_place(5));
static_assert(wire::Group::VT_EPSILON == field_place(6));

static_assert(wire::Tensor::VT_NAME == field_place(0));
static_assert(wire::Tensor::VT_SHAPE == field_place(1));
static_assert(wire::Tensor::VT_STATES == field_place(2));
static_assert(wire::Tensor::VT_GROUP == field_place(3));

static_assert(wire::Pair::VT_KEY == field_place(0));
static_assert(wire::Pair::VT_VALUE == field_place(1));

static_assert(wire::Property::VT_NAME == field_place(0));
static_assert(wire::Property::VT_TYPE == field_place(1));
static_assert(wire::Property::VT_I == field_place(2));
static_assert(wire::Property::VT_R == field_place(3));
static_assert(wire::Property::VT_TEXT == field_place(4));

static_assert(wire::Index::VT_MAJOR == field_place(0));
static_assert(wire::Index::VT_MINOR == field_place(1));
static_assert(wire::Index::VT_SAVE_ID == field_place(2));
static_assert(wire::Index::VT_ORDINAL == field_place(3));
static_assert(wire::Index::VT_SLICES == field_place(4));

// The numbers of types and kinds are those of the library.
static_assert(static_cast<int>(wire::DType::F32) == static_cast<int>(DType::kFloat32));
static_assert(static_cast<int>(wire::DType::BF16) == static_cast<int>(DType::kBFloat16));
static_assert(static_cast<int>(wire::DType::F16) == static_cast<int>(DType::kFloat16));
static_assert(static_cast<int>(wire::DType::F8E4M3) == 4);
static_assert(static_cast<int>(wire::DType::F8E5M2) == 5);
static_assert(static_cast<int>(wire::DType::I32) == static_cast<int>(DType::kInt32));
static_assert(static_cast<int>(wire::DType::I64) == static_cast<int>(DType::kInt64));
static_assert(static_cast<int>(wire::DType::U8) == static_cast<int>(DType::kUInt8));
static_assert(static_cast<int>(wire::Kind::Param) == static_cast<int>(StateKind::kParam));
static_assert(static_cast<int>(wire::Kind::Master) == static_cast<int>(StateKind::kMaster));
static_assert(static_cast<int>(wire::Kind::Moment1) == static_cast<int>(StateKind::kMoment1));
static_assert(static_cast<int>(wire::Kind::Moment2) == static_cast<int>(StateKind::kMoment2));
static_assert(static_cast<int>(wire::Kind::Extra) == static_cast<int>(StateKind::kExtra));
static_assert(static_cast<int>(wire::ValueType::Int) ==
              static_cast<int>(SavedProperty::Type::kInteger));
static_assert(static_cast<int>(wire::ValueType::Real) ==
              static_cast<int>(SavedProperty::Type::kReal));
static_assert(static_cast<int>(wire::ValueType::Text) ==
              static_cast<int>(SavedProperty::Type::kText));

template <class Value>
std::string struct_bytes(const Value& value) {
  return std::string(reinterpret_cast<const char*>(&value), sizeof value);
}

TEST_CASE("places in the structs of the format") {
  const std::array<uint64_t, 4> off{0x11, 0x12, 0x13, 0x14}, ext{0x21, 0x22, 0x23, 0x24};
  const wire::Slice slice(0x04030201, 0x0605, 7, 8, flatbuffers::make_span(off),
                          flatbuffers::make_span(ext), 0x31, 0x32, 0x33, 0x34);
  std::string expected = "\1\2\3\4\5\6\7\10";
  for (const char byte : {0x11, 0x12, 0x13, 0x14, 0x21, 0x22, 0x23, 0x24, 0x31, 0x32, 0x33, 0x34}) {
    expected += byte + std::string(7, '\0');
  }
  CHECK(struct_bytes(slice) == expected);
  CHECK(struct_bytes(wire::TensorState(0x0201, 3, 4, 0x08070605, 0x11, 0x12)) ==
        "\1\2\3\4\5\6\7\10\x11" + std::string(7, '\0') + "\x12" + std::string(7, '\0'));
  CHECK(struct_bytes(wire::ShardFile(1, 2, 3, 4, 5, 6, wire::Id128(7, 8))) ==
        std::string("\1\0\0\0\2\0\0\0\3\0\0\0\4\0\0\0"
                    "\5\0\0\0\0\0\0\0\6\0\0\0\0\0\0\0\7\0\0\0\0\0\0\0\10\0\0\0\0\0\0\0",
                    48));
}

/// A table without fields reads as its defaults.
template <class Table, class Check>
void check_defaults(const Check& check) {
  flatbuffers::FlatBufferBuilder builder;
  builder.Finish(flatbuffers::Offset<Table>(builder.EndTable(builder.StartTable())));
  check(*flatbuffers::GetRoot<Table>(builder.GetBufferPointer()));
}

TEST_CASE("every default of the format is zero or absent") {
  check_defaults<wire::Format>([](const wire::Format& t) {
    CHECK((t.major() == 0 && t.minor() == 0 && t.min_reader_minor() == 0 && t.required() == 0));
    CHECK((t.optional() == 0 && !t.writer() && !t.numerics() && t.align_log2() == 0));
  });
  check_defaults<wire::Layout>([](const wire::Layout& t) {
    CHECK((t.tensor() == 0 && t.pipeline() == 0 && t.data() == 0 && t.interleave() == 0));
    CHECK((t.zero() == 0 && !t.sequence_parallel() && !t.stage_layers()));
  });
  check_defaults<wire::Progress>([](const wire::Progress& t) {
    CHECK((t.step() == 0 && t.updates() == 0 && t.samples() == 0 && t.tokens() == 0));
    CHECK((t.skipped() == 0 && t.overflows() == 0 && t.lr() == 0));
  });
  check_defaults<wire::Scaler>([](const wire::Scaler& t) {
    CHECK((t.scale() == 0 && t.good_steps() == 0 && t.hysteresis_left() == 0));
  });
  check_defaults<wire::Rng>(
      [](const wire::Rng& t) { CHECK((!t.algorithm() && t.key_version() == 0 && t.seed() == 0)); });
  check_defaults<wire::Dataset>([](const wire::Dataset& t) {
    CHECK((t.fingerprint() == 0 && t.tokens() == 0 && t.drawn() == 0 && t.weight() == 0));
    CHECK(t.credit() == 0);
  });
  check_defaults<wire::Data>([](const wire::Data& t) {
    CHECK((!t.order() && t.order_version() == 0 && t.seed() == 0 && !t.parts()));
  });
  check_defaults<wire::Group>([](const wire::Group& t) {
    CHECK((!t.name() && !t.algorithm() && t.lr_scale() == 0 && t.weight_decay() == 0));
    CHECK((t.beta1() == 0 && t.beta2() == 0 && t.epsilon() == 0));
  });
  check_defaults<wire::Tensor>([](const wire::Tensor& t) {
    CHECK((!t.name() && !t.shape() && !t.states() && t.group() == 0));
  });
  check_defaults<wire::Pair>([](const wire::Pair& t) { CHECK((!t.key() && !t.value())); });
  check_defaults<wire::Property>([](const wire::Property& t) {
    CHECK((!t.name() && t.type() == wire::ValueType::None && t.i() == 0 && t.r() == 0));
    CHECK(!t.text());
  });
  check_defaults<wire::Manifest>([](const wire::Manifest& t) {
    CHECK((!t.format() && !t.save_id() && !t.state_digest() && !t.layout() && !t.config()));
    CHECK((!t.progress() && !t.scaler() && !t.rng() && !t.data() && !t.groups()));
    CHECK((!t.tensors() && !t.files() && !t.properties()));
  });
  check_defaults<wire::Index>([](const wire::Index& t) {
    CHECK((t.major() == 0 && t.minor() == 0 && !t.save_id() && t.ordinal() == 0 && !t.slices()));
  });
  CHECK(std::string(wire::ManifestIdentifier()) == "PLCM");
  CHECK(std::string(wire::IndexIdentifier()) == "PLSI");
}

}  // namespace
}  // namespace plait
