#include "worker/strategy/group/exchange/cut_exchange.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/collectives/host/ranks_for_testing.h"

namespace muster {
namespace {

using ::testing::HasSubstr;

TEST(CutExchangeTest, AllRanksHaveAllFilesInOrder) {
  TestRanks ranks(3);
  ranks.Run([](std::unique_ptr<Communicator> communicator) {
    std::vector<PartitionFile> mine;
    for (uint32_t p = communicator->rank(); p < 5; p += 3) {
      mine.push_back({p, std::string(p, 'x'), 10 * p, ~uint64_t{p}});
    }
    const CutFiles files = ExchangeCut(*communicator, absl::Minutes(1), mine).value();
    EXPECT_EQ(files.failure, "");
    const std::vector<PartitionFile>& all = files.by_partition;
    ASSERT_EQ(all.size(), 5);
    for (uint32_t p = 0; p < 5; ++p) {
      EXPECT_EQ(all[p].partition, p);
      EXPECT_EQ(all[p].path, std::string(p, 'x'));
      EXPECT_EQ(all[p].bytes, 10 * p);
      EXPECT_EQ(all[p].checksum, ~uint64_t{p});
    }
  });
}

TEST(CutExchangeTest, OneRanksErrorIsEverybodys) {
  TestRanks ranks(3);
  ranks.Run([](std::unique_ptr<Communicator> communicator) {
    absl::StatusOr<std::vector<PartitionFile>> mine = std::vector<PartitionFile>();
    if (communicator->rank() == 1) mine = absl::DataLossError("its memory is wrong");
    const absl::Status status = ExchangeCut(*communicator, absl::Minutes(1), mine).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
    EXPECT_THAT(std::string(status.message()), HasSubstr("rank 1"));
    EXPECT_THAT(std::string(status.message()), HasSubstr("its memory is wrong"));
    // What may pass ends nothing but this cut.
    mine = std::vector<PartitionFile>{{0, "p", 1, 2}};
    if (communicator->rank() == 2) mine = absl::PermissionDeniedError("cannot write /somewhere");
    const CutFiles files = ExchangeCut(*communicator, absl::Minutes(1), mine).value();
    EXPECT_TRUE(files.by_partition.empty());
    EXPECT_THAT(files.failure, HasSubstr("rank 2"));
    EXPECT_THAT(files.failure, HasSubstr("cannot write /somewhere"));
  });
}

}  // namespace
}  // namespace muster
