#include "server/shard/storage/store_keys.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace muster {
namespace {

using ::testing::HasSubstr;

std::string ValueKey(const std::string& job, uint32_t table, uint32_t partition, uint64_t key) {
  std::string out = PartitionPrefix(job, table, partition);
  AppendStoreKey(key, out);
  return out;
}

TEST(StoreKeysTest, AreLaidOutAsDocumented) {
  EXPECT_EQ(ValueKey("j", 1, 0x203, 0x405), std::string("j\0v"
                                                        "\0\0\0\1"
                                                        "\0\0\2\3"
                                                        "\0\0\0\0\0\0\4\5",
                                                        19));
  EXPECT_EQ(MetaKey("j", 258), std::string("j\0m\0\0\1\2", 7));
  EXPECT_EQ(LastU64(ValueKey("j", 1, 2, 0x8877665544332211)), 0x8877665544332211);
  EXPECT_EQ(LastU32(MetaKey("j", 0xfedcba98)), 0xfedcba98);
}

TEST(StoreKeysTest, ByteOrderIsOrderOfTheParts) {
  const std::string jobs[] = {"a", "a-", "aa", "b", "\xff"};
  const uint32_t numbers[] = {0, 1, 255, 256, 0x7fffffff, 0x80000000, 0xffffffff};
  const uint64_t keys[] = {0, 1, 0xff, 0x100, 0xffffffff, 0x100000000, ~uint64_t{0}};
  std::vector<std::string> encoded;
  for (const std::string& job : jobs)
    for (const uint32_t table : numbers)
      for (const uint32_t partition : numbers)
        for (const uint64_t key : keys) encoded.push_back(ValueKey(job, table, partition, key));
  EXPECT_TRUE(std::is_sorted(encoded.begin(), encoded.end()));
  EXPECT_EQ(std::adjacent_find(encoded.begin(), encoded.end()), encoded.end());
}

TEST(StoreKeysTest, PrefixEndIsBehindAllWithThePrefix) {
  EXPECT_EQ(PrefixEnd("ab"), "ac");
  EXPECT_EQ(PrefixEnd("a\xff\xff"), "b");
  const std::string prefix = PartitionPrefix("j", 3, 0xffffffff);
  EXPECT_LT(ValueKey("j", 3, 0xffffffff, ~uint64_t{0}), PrefixEnd(prefix));
  EXPECT_LE(PrefixEnd(prefix), ValueKey("j", 4, 0, 0));
  EXPECT_LE(PrefixEnd(JobPrefix("j")), MetaKey("j\x01", 0));
}

TEST(StoreKeysTest, JobIds) {
  EXPECT_TRUE(CheckJobId("job-1").ok());
  EXPECT_TRUE(absl::IsInvalidArgument(CheckJobId("")));
  const absl::Status status = CheckJobId(std::string("ab\0c", 4));
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_THAT(status.message(), HasSubstr("position 2"));
}

TEST(StoreKeysTest, Ascending) {
  EXPECT_TRUE(CheckAscending({}).ok());
  EXPECT_TRUE(CheckAscending({1, 2, 9}).ok());
  EXPECT_TRUE(absl::IsInvalidArgument(CheckAscending({1, 1})));
  const absl::Status status = CheckAscending({1, 5, 4});
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_THAT(status.message(), HasSubstr("key 2 is 4 after 5"));
}

}  // namespace
}  // namespace muster
