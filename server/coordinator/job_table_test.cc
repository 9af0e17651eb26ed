#include "server/coordinator/job_table.h"

#include <memory>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/coordinator/memory_job_store.h"

namespace muster {
namespace {

class JobTableTest : public ::testing::Test {
 protected:
  JobTableTest() { Load(); }

  void Load() { table_ = *JobTable::Load(store_, clock_, {}); }

  void Drop(Job& job, const std::string& server, uint64_t generation) {
    JobChange change{.record = job.record};
    change.drops[server] = generation;
    ASSERT_TRUE(table_->Commit(job, std::move(change)).ok());
  }

  Job& AddJob() {
    v1::JobRecord record;
    record.set_state(v1::PENDING);
    record.mutable_spec()->set_workers(1);
    return **table_->Create(record, "submitted");
  }

  MemoryJobStore store_;
  FakeClock clock_;
  std::unique_ptr<JobTable> table_;
};

TEST_F(JobTableTest, AnAcknowledgedDropLeavesALaterOne) {
  Job& job = AddJob();
  const std::string id = job.id();
  Drop(job, "s0", 1);
  const Drops told = table_->DropsOf("s0");
  EXPECT_EQ(told, (Drops{{id, 1}}));
  // The server was told of generation 1, and says so after generation 3 was noted.
  Drop(job, "s0", 3);
  EXPECT_TRUE(table_->ClearDrops("s0", told).ok());
  EXPECT_EQ(table_->DropsOf("s0"), (Drops{{id, 3}}));
  Load();
  EXPECT_EQ(table_->DropsOf("s0"), (Drops{{id, 3}}));
  EXPECT_TRUE(table_->ClearDrops("s0", {{id, 3}}).ok());
  EXPECT_TRUE(table_->DropsOf("s0").empty());
  Load();
  EXPECT_TRUE(table_->drops().empty());
}

TEST_F(JobTableTest, DropsOfEarlierReleasesStandForAnyGeneration) {
  JobStoreBatch batch;
  batch.Put(StoreTable::kDrops, StoreKey("s0", "j1-0000"), "");
  ASSERT_TRUE(store_.Write(batch, JobStore::Durability::kSynced).ok());
  Load();
  EXPECT_EQ(table_->DropsOf("s0"), (Drops{{"j1-0000", 0}}));

  batch.Put(StoreTable::kDrops, StoreKey("s0", "j1-0000"), "many");
  ASSERT_TRUE(store_.Write(batch, JobStore::Durability::kSynced).ok());
  EXPECT_EQ(JobTable::Load(store_, clock_, {}).status().code(), absl::StatusCode::kDataLoss);
}

}  // namespace
}  // namespace muster
