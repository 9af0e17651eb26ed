#include "common/base/payload.h"

#include <cstring>
#include <numeric>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace muster {
namespace {

// Cuts `bytes` at irregular places, each span at an odd address.
Payload Shred(const std::vector<std::byte>& bytes, size_t step) {
  auto owner = std::make_shared<std::vector<std::vector<std::byte>>>();
  std::vector<Payload::Span> spans;
  for (size_t at = 0; at < bytes.size();) {
    const size_t n = std::min(bytes.size() - at, 1 + (at * 7 + step) % (2 * step + 1));
    std::vector<std::byte> copy(n + 1);
    std::memcpy(copy.data() + 1, bytes.data() + at, n);
    owner->push_back(std::move(copy));
    at += n;
  }
  for (const auto& copy : *owner) spans.push_back(absl::MakeConstSpan(copy).subspan(1));
  return Payload(std::move(spans), owner);
}

std::vector<std::byte> Floats(size_t count) {
  std::vector<float> values(count);
  std::iota(values.begin(), values.end(), 1.0f);
  std::vector<std::byte> bytes(count * sizeof(float));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

class PayloadTest : public ::testing::TestWithParam<size_t> {};

TEST_P(PayloadTest, AddsElementsAcrossSpans) {
  const Payload payload = Shred(Floats(100), GetParam());
  std::vector<float> sum(100, 0.5f);
  payload.AddTo(absl::MakeSpan(sum));
  for (size_t i = 0; i < sum.size(); ++i) EXPECT_EQ(sum[i], 1.5f + i);
}

TEST_P(PayloadTest, SlicesAndCopies) {
  const std::vector<std::byte> bytes = Floats(50);
  const Payload slice = Shred(bytes, GetParam()).Slice(13, 101);
  ASSERT_EQ(slice.size(), 101u);
  std::vector<std::byte> copy(101);
  slice.CopyTo(copy.data());
  EXPECT_EQ(std::memcmp(copy.data(), bytes.data() + 13, 101), 0);
}

INSTANTIATE_TEST_SUITE_P(SpanLengths, PayloadTest, ::testing::Values(1, 2, 3, 5, 16, 1000));

TEST(PayloadTest, OwnsWhatItWasGiven) {
  Payload slice;
  {
    const Payload whole = Payload::Of(std::vector<float>{1, 2, 3});
    slice = whole.Slice(4, 8);
  }
  std::vector<float> sum(2);
  slice.AddTo(absl::MakeSpan(sum));
  EXPECT_EQ(sum, (std::vector<float>{2, 3}));
}

}  // namespace
}  // namespace muster
