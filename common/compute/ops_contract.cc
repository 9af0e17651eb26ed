#include "common/compute/ops_contract.h"

#include <cmath>
#include <cstring>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"

namespace muster {

using Match = OpsImplementation::Match;

float HostArray::Get(int64_t i) const {
  float value = 0;
  WithType(type_, [&](auto zero) { value = ToFloat(As<decltype(zero)>()[i]); });
  return value;
}

void HostArray::Set(int64_t i, float value) {
  WithType(type_, [&](auto zero) { StoreRounded(value, As<decltype(zero)>() + i); });
}

double RoundingOf(DType type) {
  switch (type) {
    case DType::kBf16:
      return 1.0 / 256;
    case DType::kF16:
      return 1.0 / 2048;
    default:
      return 1.0 / (1 << 24);
  }
}

void OpsContractTest::SetUp() {
  auto made = std::get<OpsImplementation>(GetParam()).make();
  if (absl::IsUnavailable(made.status())) GTEST_SKIP() << made.status().message();
  ASSERT_TRUE(made.ok()) << made.status();
  made_ = *std::move(made);
}

HostArray OpsContractTest::Random(DType type, int64_t n, uint32_t seed, float low, float high) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> distribution(low, high);
  HostArray array(type, n);
  for (int64_t i = 0; i < n; ++i) array.Set(i, distribution(random));
  return array;
}

HostArray OpsContractTest::Filled(DType type, int64_t n, float value) {
  HostArray array(type, n);
  for (int64_t i = 0; i < n; ++i) array.Set(i, value);
  return array;
}

void* OpsContractTest::Room(size_t bytes) {
  void* const room = made_->Allocate(bytes);
  ops().stream().Fill(room, 255, bytes);
  return room;
}

void* OpsContractTest::Copied(const void* data, size_t bytes) {
  void* const room = Room(bytes);
  ops().stream().CopyIn(room, data, bytes);
  // The memory copied from may go now.
  const absl::Status status = ops().stream().Synchronize();
  EXPECT_TRUE(status.ok()) << status;
  return room;
}

void* OpsContractTest::Put(const HostArray& array) { return Copied(array.data(), array.bytes()); }

EmbeddingTokens OpsContractTest::PutTokens(const std::vector<int32_t>& tokens, int64_t vocabulary) {
  EmbeddingTokens result;
  result.tokens = PutValues(tokens);
  const std::vector<int32_t> order = made_->TokenOrder(tokens, vocabulary);
  if (!order.empty()) result.order = PutValues(order);
  return result;
}

OpDropout OpsContractTest::PutDropout(const DropoutMask& mask, const DropoutShape& shape) {
  OpDropout dropout =
      DropoutOf(mask, PutValues(std::vector<DropoutClock>{{mask.clock, shape.first_example}}));
  dropout.first_element = shape.first_element;
  return dropout;
}

const void* OpsContractTest::PutBias(const HostArray* bias) {
  if (bias == nullptr) return nullptr;
  HostArray wanted(traits().bias == OpsTraits::Bias::kMaster ? DType::kF32 : type(), bias->size());
  for (int64_t i = 0; i < bias->size(); ++i) wanted.Set(i, bias->Get(i));
  return Put(wanted);
}

HostArray OpsContractTest::Read(const void* from, DType type, int64_t n) {
  HostArray array(type, n);
  ReadBytes(from, array.data(), array.bytes());
  return array;
}

void OpsContractTest::ReadBytes(const void* from, void* to, size_t bytes) {
  ops().stream().CopyOut(to, from, bytes);
  const absl::Status status = ops().stream().Synchronize();
  EXPECT_TRUE(status.ok()) << status;
}

bool OpsContractTest::HasBits(const HostArray& got, const HostArray& wanted,
                              const std::string& what) {
  if (std::memcmp(got.data(), wanted.data(), wanted.bytes()) == 0) return true;
  const size_t size = SizeOf(wanted.type());
  int64_t i = 0;
  while (std::memcmp(got.As<char>() + i * size, wanted.As<char>() + i * size, size) == 0) ++i;
  ADD_FAILURE() << what << "[" << i << "] has other bits: " << got.Get(i) << " for "
                << wanted.Get(i);
  return false;
}

void OpsContractTest::Expect(const void* from, const HostArray& wanted, const Bounds& bounds,
                             const std::string& what) {
  const HostArray got = Read(from, wanted.type(), wanted.size());
  if (std::get<OpsImplementation>(GetParam()).match == Match::kBits) {
    ASSERT_TRUE(HasBits(got, wanted, what));
    return;
  }
  const double relative = bounds.relative + 2 * RoundingOf(wanted.type());
  for (int64_t i = 0; i < wanted.size(); ++i) {
    const double value = got.Get(i), right = wanted.Get(i);
    const bool close = std::isnan(right)
                           ? std::isnan(value)
                           : value == right || std::abs(value - right) <=
                                                   bounds.absolute + relative * std::abs(right);
    ASSERT_TRUE(close) << what << "[" << i << "]: " << value << " for " << right;
  }
}

void OpsContractTest::ExpectNormwise(const void* from, const HostArray& wanted,
                                     const Columns& columns, double bound,
                                     const std::string& what) {
  const HostArray got = Read(from, wanted.type(), wanted.size());
  if (std::get<OpsImplementation>(GetParam()).match == Match::kBits) {
    ASSERT_TRUE(HasBits(got, wanted, what));
    return;
  }
  double error = 0, norm = 0;
  for (int64_t i = 0; i < wanted.size(); ++i) {
    const double value = got.Get(i), right = wanted.Get(i);
    ASSERT_EQ(std::isnan(value), std::isnan(right)) << what << "[" << i << "]";
    const int64_t column = i % columns.stride;
    if (column < columns.begin || column >= columns.end) continue;
    const double difference = value - right;
    error += difference * difference;
    norm += right * right;
  }
  ASSERT_TRUE(std::sqrt(error) <= bound * std::sqrt(norm))
      << what << ": " << std::sqrt(error) << " off of " << std::sqrt(norm);
}

std::string NameOfOpsTest(
    const testing::TestParamInfo<std::tuple<OpsImplementation, DType>>& info) {
  return absl::StrCat(std::get<OpsImplementation>(info.param).name, "_",
                      Name(std::get<DType>(info.param)));
}

}  // namespace muster
