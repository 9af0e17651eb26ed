#include "common/tokenizer/bpe/byte_level.h"

#include <set>
#include <string>

#include "gtest/gtest.h"

namespace muster {
namespace {

TEST(ByteLevelTest, WritesAsGpt2Does) {
  EXPECT_EQ(ToByteLevel(" the"), "\u0120the");
  EXPECT_EQ(ToByteLevel("\n"), "\u010a");
  EXPECT_EQ(ToByteLevel("a!~"), "a!~");
  // The first byte, DEL and the soft hyphen are the 1st, 34th and 68th that are not themselves.
  EXPECT_EQ(ToByteLevel(std::string("\0", 1)), "\u0100");
  EXPECT_EQ(ToByteLevel("\x7f"), "\u0121");
  EXPECT_EQ(ToByteLevel("\xad"), "\u0143");
}

TEST(ByteLevelTest, EveryByteIsReadBack) {
  std::string all;
  for (int byte = 0; byte < 256; ++byte) all.push_back(static_cast<char>(byte));
  EXPECT_EQ(FromByteLevel(ToByteLevel(all)), all);
  EXPECT_EQ(FromByteLevel(""), "");
}

TEST(ByteLevelTest, OtherCharactersStandForNoByte) {
  EXPECT_EQ(FromByteLevel("a b"), std::nullopt);
  EXPECT_EQ(FromByteLevel("\u0144"), std::nullopt);
  EXPECT_EQ(FromByteLevel("\u2581the"), std::nullopt);
  EXPECT_EQ(FromByteLevel("\xff"), std::nullopt);
}

TEST(ByteLevelTest, TheOrderIsThatOfTheCharacters) {
  const auto& order = ByteLevelOrder();
  EXPECT_EQ(std::set<uint8_t>(order.begin(), order.end()).size(), 256u);
  EXPECT_EQ(order[0], '!');
  EXPECT_EQ(order[187], 0xff);
  EXPECT_EQ(order[188], 0);
  EXPECT_EQ(order[255], 0xad);
}

}  // namespace
}  // namespace muster
