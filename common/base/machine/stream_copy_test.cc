#include "common/base/machine/stream_copy.h"

#include <cstddef>
#include <vector>

#include "gtest/gtest.h"

namespace muster {
namespace {

TEST(StreamCopyTest, CopiesEveryLengthFromAndToEveryPlaceAndNothingBeside) {
  constexpr size_t kMargin = 70;
  std::vector<std::byte> in(1000);
  for (size_t i = 0; i < in.size(); ++i) in[i] = static_cast<std::byte>(i * 37 + i / 256);
  for (size_t from : {0, 1, 17, 64}) {
    for (size_t to = 0; to < kMargin; to += 3) {
      for (size_t bytes : {0, 1, 63, 64, 65, 127, 128, 300, 800}) {
        std::vector<std::byte> out(to + bytes + kMargin, std::byte{0xee});
        StreamCopy(out.data() + to, in.data() + from, bytes);
        StreamFence();
        for (size_t i = 0; i < out.size(); ++i) {
          const bool within = i >= to && i < to + bytes;
          ASSERT_EQ(out[i], within ? in[from + i - to] : std::byte{0xee})
              << "byte " << i << " of " << bytes << " from " << from << " to " << to;
        }
      }
    }
  }
}

}  // namespace
}  // namespace muster
