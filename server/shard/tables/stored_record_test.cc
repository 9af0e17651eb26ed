#include "server/shard/tables/stored_record.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster {
namespace {

using ::testing::ElementsAre;

TEST(StoredRecordTest, ComesBackAsItWas) {
  const std::vector<std::byte> bytes =
      EncodeRecord({.lsn = 3, .steps = 4, .last_use = 5}, {1, 2}, {7, 8, 9});
  StoredRecord record;
  std::vector<float> weights(2), state(3);
  ASSERT_TRUE(DecodeRecord(bytes, record, absl::MakeSpan(weights), absl::MakeSpan(state)).ok());
  EXPECT_EQ(record.lsn, 3u);
  EXPECT_EQ(record.steps, 4u);
  EXPECT_EQ(record.last_use, 5u);
  EXPECT_THAT(weights, ElementsAre(1, 2));
  EXPECT_THAT(state, ElementsAre(7, 8, 9));
}

TEST(StoredRecordTest, AnotherLengthIsDataLoss) {
  const std::vector<std::byte> bytes = EncodeRecord({}, {1, 2}, {});
  StoredRecord record;
  std::vector<float> weights(3);
  EXPECT_TRUE(absl::IsDataLoss(DecodeRecord(bytes, record, absl::MakeSpan(weights), {})));
  EXPECT_TRUE(absl::IsDataLoss(DecodeRecord({}, record, {}, {})));
}

}  // namespace
}  // namespace muster
