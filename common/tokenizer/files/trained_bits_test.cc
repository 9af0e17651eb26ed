#include "common/tokenizer/files/trained_bits.h"

#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "common/files/temp_folder.h"
#include "common/tokenizer/files/token_array.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

TEST(TrainedBitsTest, NoneAreKeptWhileAllTokensAreToBeLearned) {
  const TempFolder folder;
  TrainedBits bits(folder.path() + "/t");
  ASSERT_TRUE(bits.Add(uint64_t{1} << 40, true).ok());
  ASSERT_TRUE(bits.Add(0, false).ok());
  EXPECT_EQ(bits.trained(), uint64_t{1} << 40);
  ASSERT_TRUE(bits.Finish([](absl::string_view) {
                    ADD_FAILURE();
                    return absl::OkStatus();
                  })
                  .ok());
}

TEST(TrainedBitsTest, RunsOfAnyLengthAreReadBack) {
  std::mt19937 random(3);
  const TempFolder folder;
  for (int round = 0; round < 20; ++round) {
    TrainedBits bits(folder.path() + "/t");
    std::vector<uint8_t> expected;
    // One of them is long enough for several chunks, most of which lie in a file.
    const std::vector<uint64_t> lengths = {1, 7, 8, 9, 64, 1000, round == 0 ? 20'000'000u : 5000u};
    uint64_t trained = 0;
    for (int run = 0; run < 30; ++run) {
      const uint64_t length = lengths[run == 9 ? 6 : random() % 6];
      const bool learned = random() % 2 == 0;
      ASSERT_TRUE(bits.Add(length, learned).ok());
      expected.insert(expected.end(), length, learned);
      trained += learned ? length : 0;
    }
    EXPECT_EQ(bits.trained(), trained);
    std::string packed;
    TokenChunks chunks;
    ASSERT_TRUE(bits.Finish([&](absl::string_view bytes) {
                      packed.append(bytes.data(), bytes.size());
                      chunks.Add(bytes);
                      return absl::OkStatus();
                    })
                    .ok());
    ASSERT_EQ(packed.size(), (expected.size() + 7) / 8);
    const std::vector<uint64_t> sums = chunks.Finish();
    const CheckedBits checked(
        packed, {reinterpret_cast<const char*>(sums.data()), sums.size() * sizeof(uint64_t)},
        "bits");
    std::vector<uint8_t> read;
    ASSERT_TRUE(checked.Read(0, expected.size(), read).ok());
    EXPECT_TRUE(read == expected);
    for (int part = 0; part < 20; ++part) {
      const uint64_t first = random() % expected.size();
      const uint64_t count = random() % (expected.size() - first);
      read.clear();
      ASSERT_TRUE(checked.Read(first, count, read).ok());
      EXPECT_TRUE(std::equal(read.begin(), read.end(), expected.begin() + first));
    }
  }
}

}  // namespace
}  // namespace muster
