#include "server/shard/calls/typed_payload.h"

#include <memory>
#include <vector>

#include "gtest/gtest.h"

namespace muster {
namespace {

std::vector<float> FloatsOf(const Payload& payload) {
  std::vector<float> values(payload.size() / sizeof(float));
  payload.CopyTo(values.data());
  return values;
}

std::shared_ptr<std::byte> NoMemory(size_t) {
  ADD_FAILURE() << "nothing is to be made";
  return nullptr;
}

TEST(TypedPayloadTest, F32StaysWhatItIs) {
  const auto pool = BufferPool::Create(1 << 20);
  const Payload payload = Payload::Of(std::vector<float>{1, 2, 3});
  EXPECT_EQ(WidenPayload(payload, DType::kF32, *pool).spans()[0].data(), payload.spans()[0].data());
  EXPECT_EQ(NarrowPayload(payload, DType::kF32, NoMemory).spans()[0].data(),
            payload.spans()[0].data());
}

TEST(TypedPayloadTest, HalvesGoAndComeBack) {
  const auto pool = BufferPool::Create(1 << 20);
  const std::vector<float> first = {1, -2.5f, 0.125f}, second = {384, 0};
  const auto bytes = [](const std::vector<float>& values) {
    return Payload::Span(reinterpret_cast<const std::byte*>(values.data()),
                         values.size() * sizeof(float));
  };
  for (const DType type : {DType::kBf16, DType::kF16}) {
    const std::shared_ptr<std::byte> given(new std::byte[10], std::default_delete<std::byte[]>());
    const Payload narrow =
        NarrowPayload(Payload({bytes(first), bytes(second)}, nullptr), type, [&](size_t size) {
          EXPECT_EQ(size, 10);
          return given;
        });
    EXPECT_EQ(narrow.size(), 10);
    EXPECT_EQ(narrow.spans()[0].data(), given.get());
    EXPECT_EQ(FloatsOf(WidenPayload(narrow, type, *pool)),
              (std::vector<float>{1, -2.5f, 0.125f, 384, 0}));
  }
}

}  // namespace
}  // namespace muster
