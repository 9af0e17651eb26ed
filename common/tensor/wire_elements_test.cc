#include "common/tensor/wire_elements.h"

#include <cstdint>
#include <memory>
#include <vector>

#include "common/base/philox.h"
#include "common/tensor/half.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

class WireElementsTest : public testing::TestWithParam<DType> {};

std::vector<std::byte> Encode(DType type, const std::vector<float>& values) {
  std::vector<std::byte> bytes(values.size() * SizeOf(type));
  if (type == DType::kF32) {
    std::copy_n(reinterpret_cast<const std::byte*>(values.data()), bytes.size(), bytes.data());
  } else {
    RoundToHalf(type, values, reinterpret_cast<uint16_t*>(bytes.data()));
  }
  return bytes;
}

TEST_P(WireElementsTest, SpansMayEndAnywhere) {
  std::vector<float> values;
  for (int i = 0; i < 200; ++i) values.push_back(static_cast<float>(i - 100) / 8);
  const auto bytes = std::make_shared<std::vector<std::byte>>(Encode(GetParam(), values));
  const Philox random(5);
  for (uint64_t round = 0; round < 300; ++round) {
    std::vector<Payload::Span> spans;
    size_t at = 0;
    for (uint64_t draw = 0; at < bytes->size(); ++draw) {
      const size_t size =
          std::min<size_t>(random.Below(round % 2 == 0 ? 7 : 90, round, draw), bytes->size() - at);
      spans.emplace_back(bytes->data() + at, size);
      at += size;
    }
    const Payload payload(std::move(spans), bytes);
    std::vector<float> read(values.size(), -1);
    ReadElements(GetParam(), payload, absl::MakeSpan(read));
    ASSERT_EQ(read, values);
  }
}

TEST_P(WireElementsTest, NothingIsNothing) { ReadElements(GetParam(), Payload(), {}); }

INSTANTIATE_TEST_SUITE_P(Types, WireElementsTest,
                         testing::Values(DType::kF32, DType::kBf16, DType::kF16),
                         [](const auto& info) { return Name(info.param); });

}  // namespace
}  // namespace muster
