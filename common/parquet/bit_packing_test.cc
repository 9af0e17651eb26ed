#include "common/parquet/bit_packing.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::SizeIs;

std::vector<uint32_t> Runs(absl::string_view bytes, int width, size_t most) {
  RunDecoder decoder(bytes, width);
  std::vector<uint32_t> values;
  uint32_t value = 0;
  while (values.size() < most && decoder.Next(value)) values.push_back(value);
  return values;
}

TEST(BitPackingTest, BitsAreCountedFromTheLowest) {
  const std::string bytes = "\xb1\x02\x03\x04\x05\x06\x07\x08\x09";
  EXPECT_EQ(BitsAt(bytes, 0, 4), 1u);
  EXPECT_EQ(BitsAt(bytes, 4, 4), 0xbu);
  EXPECT_EQ(BitsAt(bytes, 4, 64), 0x908070605040302bu);
  EXPECT_EQ(BitsAt(bytes, 64, 8), 9u);
  EXPECT_EQ(BitsAt(bytes, 68, 32), 0u);
  EXPECT_EQ(BitsAt(bytes, 80, 8), 0u);
}

TEST(BitPackingTest, RunsAreRepeatedOrPacked) {
  // The format's example: 0 to 7 in 3 bits each.
  EXPECT_THAT(Runs("\x03\x88\xc6\xfa", 3, 99), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
  EXPECT_THAT(Runs(absl::string_view("\x06\x05\x04\x01", 4), 3, 99), ElementsAre(5, 5, 5, 1, 1));
  EXPECT_THAT(Runs(absl::string_view("\x04\x34\x12", 3), 13, 99), ElementsAre(0x1234, 0x1234));
  EXPECT_THAT(Runs("\x06", 0, 99), ElementsAre(0, 0, 0));
  // A value with more bits than it may have, and one that is cut off.
  EXPECT_THAT(Runs("\x06\x08", 3, 99), ElementsAre());
  EXPECT_THAT(Runs("\x06", 3, 99), ElementsAre());
  EXPECT_THAT(Runs("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 3, 99), ElementsAre());
  // A count is taken one by one, and packed runs end with their bytes.
  EXPECT_THAT(Runs("\xfe\xff\xff\xff\x0f\x01", 1, 9), AllOf(SizeIs(9), Each(1)));
  EXPECT_THAT(Runs("\xff\xff\xff\xff\x0f\x01", 1, 99), SizeIs(8));
}

std::vector<int64_t> Deltas(absl::string_view bytes, size_t most, std::string* rest = nullptr) {
  DeltaDecoder decoder;
  std::vector<int64_t> values;
  if (!decoder.Start(bytes)) return {-999};
  int64_t value = 0;
  while (values.size() < most && decoder.Next(value)) values.push_back(value);
  if (rest != nullptr) *rest = std::string(decoder.rest());
  return values;
}

TEST(BitPackingTest, DifferencesAreAddedUp) {
  // Blocks of 128 in 4 parts; 5 values from 7 on: differences -2 -2 -2 1 2, the least is -2.
  std::string rest;
  const std::string header("\x80\x01\x04\x06\x0e\x03\x03\x00\x00\x00", 10);
  // 0 0 0 3 4 in 3 bits each.
  const std::string part = std::string("\x00\x46\x00", 3) + std::string(9, '\0');
  EXPECT_THAT(Deltas(header + part + "behind", 99, &rest), ElementsAre(7, 5, 3, 1, 2, 4));
  EXPECT_EQ(rest, "behind");
  EXPECT_THAT(Deltas(header + part.substr(1), 99), ElementsAre(7));
  // One value needs no block.
  EXPECT_THAT(Deltas(std::string("\x80\x01\x04\x01\x0d"), 99, &rest), ElementsAre(-7));
  EXPECT_EQ(rest, "");
  EXPECT_THAT(Deltas(std::string("\x80\x01\x04\x00\x00", 5), 99), ElementsAre());
}

TEST(BitPackingTest, BlocksThatCannotBeAreRefused) {
  EXPECT_THAT(Deltas("", 9), ElementsAre(-999));
  // No parts, parts that do not divide a block, parts of no whole bytes, and a huge block.
  EXPECT_THAT(Deltas(std::string("\x80\x01\x00\x06\x0e", 5), 9), ElementsAre(-999));
  EXPECT_THAT(Deltas("\x80\x01\x03\x06\x0e", 9), ElementsAre(-999));
  EXPECT_THAT(Deltas("\x0c\x01\x06\x0e", 9), ElementsAre(-999));
  EXPECT_THAT(Deltas("\x80\x80\x80\x80\x01\x01\x06\x0e", 9), ElementsAre(-999));
  // Values of 65 bits.
  EXPECT_THAT(Deltas("\x80\x01\x01\x06\x0e\x03\x41" + std::string(2000, 'x'), 9), ElementsAre(7));
}

}  // namespace
}  // namespace muster
