#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/parameter_service.pb.h"
#include "server/shard/partition/partition_fixture.h"

namespace muster {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::Ne;

// Blocks 0 and 1 are trained, 2 and 3 are frozen.
using PartitionFrozenTest = PartitionTest;

v1::OpenTablesRequest OpenFrozen() {
  v1::OpenTablesRequest request = TestOpenRequest(1);
  v1::TablesSchema& schema = *request.mutable_schema();
  *schema.add_tensors() = schema.tensors(0);
  schema.mutable_tensors(1)->set_name("base");
  schema.mutable_tensors(1)->set_frozen(true);
  return request;
}

TEST_F(PartitionFrozenTest, ClocksEndWithoutPushesOfFrozenBlocks) {
  Open(OpenFrozen());
  EXPECT_THAT(Do(TestDensePull(0, 0, 0, 4)).floats(), Each(1));
  EXPECT_THAT(Refusal(absl::StatusCode::kFailedPrecondition, TestClose(0, 0, 0)),
              HasSubstr("with 0 of 2 pushes of dense blocks in"));
  PushAllDense(0, 0, 1);
  Do(TestClose(0, 0, 0));
  EXPECT_THAT(Do(TestDensePull(0, 1, 0, 2)).floats(), Each(Ne(1)));
  EXPECT_THAT(Do(TestDensePull(0, 1, 2, 2)).floats(), Each(1));
}

TEST_F(PartitionFrozenTest, PushesOfFrozenBlocksAreRefused) {
  Open(OpenFrozen());
  EXPECT_THAT(Refusal(absl::StatusCode::kInvalidArgument, TestDensePush(0, 0, 1, 2),
                      Floats(std::vector<float>(8))),
              HasSubstr("block 2 is frozen: nobody pushes it"));
}

}  // namespace
}  // namespace muster
