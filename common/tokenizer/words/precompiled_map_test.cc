#include "common/tokenizer/words/precompiled_map.h"

#include <cstring>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using ::testing::HasSubstr;

// A table that makes "x" of "a" and "yz" of "ab". Units 1, 2 and 3 have the bytes' numbers added to
// their places: that of 'a' is 256 ^ 'a', whose successors lie 256 further on.
std::string Table() {
  std::vector<uint32_t> units(1024);
  const uint32_t a = 256 ^ 'a';
  units[0] = 256 << 10;
  units[a] = 'a' | 1 << 8 | 512 << 10;
  const uint32_t behind_a = a ^ 512;
  units[behind_a] = 1u << 31 | 0;
  const uint32_t ab = behind_a ^ 'b';
  units[ab] = 'b' | 1 << 8 | 1 << 10;
  units[ab ^ 1] = 1u << 31 | 2;
  const auto bytes = static_cast<uint32_t>(units.size() * sizeof(uint32_t));
  std::string table(sizeof(bytes) + bytes, '\0');
  memcpy(table.data(), &bytes, sizeof(bytes));
  memcpy(table.data() + sizeof(bytes), units.data(), bytes);
  return table + std::string("x\0yz\0", 5);
}

TEST(PrecompiledMapTest, ReplacesTheLongestText) {
  const auto map = PrecompiledMap::Create(Table());
  ASSERT_TRUE(map.ok()) << map.status();
  std::string out;
  (*map)->Apply("aab\u00e9ba\xff", 1000, out);
  EXPECT_EQ(out, "xyz\u00e9bx\xff");
  out.clear();
  (*map)->Apply("abababab", 3, out);
  EXPECT_EQ(out, "yzyzabab");
}

TEST(PrecompiledMapTest, DamageIsRefusedOrHarmless) {
  EXPECT_THAT(std::string(PrecompiledMap::Create("abc").status().message()),
              HasSubstr("has 3 bytes, fewer than it says"));
  EXPECT_FALSE(PrecompiledMap::Create(Table().substr(0, 900)).ok());
  EXPECT_FALSE(PrecompiledMap::Create(std::string("\2\0\0\0ab", 6)).ok());
  std::string table = Table();
  for (size_t i = 4; i < table.size(); i += 3) table[i] = static_cast<char>(i * 37);
  const auto map = PrecompiledMap::Create(table);
  ASSERT_TRUE(map.ok());
  std::string out;
  (*map)->Apply("abcabz \xff", 1000, out);
  // Every place in the texts that replace is one with an end.
  std::string all = Table().substr(0, 4 + 4096);
  for (int i = 0; i < 1024; ++i) memset(all.data() + 4 + i * 4, 0xff, 4);
  const auto beyond = PrecompiledMap::Create(all);
  ASSERT_TRUE(beyond.ok());
  out.clear();
  (*beyond)->Apply("ab", 1000, out);
  EXPECT_EQ(out, "ab");
}

}  // namespace
}  // namespace muster
