#include "common/compression/gzip.h"

#include <string>

#include "common/compression/packed_for_testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using ::testing::HasSubstr;

// Long enough for several chunks of output, and not all alike.
std::string Sample() {
  std::string bytes;
  for (uint32_t i = 0; i < 300'000; ++i) bytes += static_cast<char>((i * i) >> 7);
  return bytes;
}

TEST(GzipTest, KnowsTheFormat) {
  EXPECT_TRUE(IsGzip(Gzip("x")));
  EXPECT_FALSE(IsGzip("x"));
  EXPECT_FALSE(IsGzip("\x1f"));
}

TEST(GzipTest, UnpacksAllOrUpToTheLimit) {
  const std::string bytes = Sample();
  const std::string packed = Gzip(bytes);
  EXPECT_EQ(Gunzip(packed, bytes.size() + 1).value(), bytes);
  EXPECT_EQ(Gunzip(packed, bytes.size()).value(), bytes);
  EXPECT_EQ(Gunzip(packed, 100).value(), bytes.substr(0, 100));
  EXPECT_EQ(Gunzip(packed, 0).value(), "");
  EXPECT_EQ(Gunzip(Gzip(""), 10).value(), "");
}

TEST(GzipTest, JoinsSeveralMembers) {
  EXPECT_EQ(Gunzip(Gzip("first ") + Gzip("") + Gzip("second"), 100).value(), "first second");
}

TEST(GzipTest, ATruncatedStreamIsDataLoss) {
  const std::string packed = Gzip(Sample());
  for (const size_t size : {size_t{2}, size_t{9}, size_t{1000}, packed.size() - 1}) {
    const auto unpacked = Gunzip(packed.substr(0, size), 1'000'000);
    EXPECT_EQ(unpacked.status().code(), absl::StatusCode::kDataLoss) << size;
    EXPECT_THAT(std::string(unpacked.status().message()), HasSubstr("ends early")) << size;
  }
}

TEST(GzipTest, ADamagedStreamIsDataLoss) {
  std::string packed = Gzip(Sample());
  packed[packed.size() - 6] ^= 1;  // In the checksum.
  const auto unpacked = Gunzip(packed, 1'000'000);
  EXPECT_EQ(unpacked.status().code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(unpacked.status().message()), HasSubstr("damaged at byte"));
}

}  // namespace
}  // namespace muster
