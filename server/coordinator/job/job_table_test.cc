#include "server/coordinator/job/job_table.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/fake_clock_for_testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/task_service.pb.h"
#include "server/coordinator/history/last_step_for_testing.h"
#include "server/coordinator/store/memory_job_store_for_testing.h"

namespace muster {
namespace {

using ::testing::ElementsAre;

class JobTableTest : public ::testing::Test {
 protected:
  JobTableTest() { Load(); }

  void Load(JobTableOptions options = {}) {
    table_ = *JobTable::Load(store_, clock_, std::move(options));
  }

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

// Returns a store with the same records.
std::unique_ptr<MemoryJobStore> CopyOf(const MemoryJobStore& store) {
  auto copy = std::make_unique<MemoryJobStore>();
  JobStoreBatch batch;
  for (const StoreTable table : {StoreTable::kStore, StoreTable::kJobs, StoreTable::kEvents}) {
    EXPECT_TRUE(store
                    .Scan(table, "",
                          [&](absl::string_view key, absl::string_view value) {
                            batch.Put(table, std::string(key), std::string(value));
                            return absl::OkStatus();
                          })
                    .ok());
  }
  EXPECT_TRUE(copy->Write(batch, JobStore::Durability::kSynced).ok());
  return copy;
}

TEST_F(JobTableTest, TellsOfAWorkerThatAJobHasLeft) {
  std::vector<std::string> alerts;
  JobTableOptions options;
  options.alert = [&](JobAlert alert) {
    alerts.push_back(absl::StrCat(NameOf(alert.kind), " ", alert.job_id, ": ", alert.text));
  };
  Load(std::move(options));
  Job& job = AddJob();
  JobChange change{.record = job.record};
  change.events.emplace_back("leaves worker w1, which is slow", v1::JobEvent::LEFT);
  change.events.emplace_back("slot 0 leaves worker w1");
  ASSERT_TRUE(table_->Commit(job, std::move(change)).ok());
  EXPECT_THAT(alerts, ElementsAre(absl::StrCat("left_worker ", job.id(),
                                               ": leaves worker w1, which is slow")));
}

TEST_F(JobTableTest, JobsAfterABackupIsRestoredHaveOtherIdsThanThoseThatItLacks) {
  EXPECT_EQ(AddJob().id(), "j1-0000");
  Load({.identity = 0x12345678});
  const std::unique_ptr<MemoryJobStore> backup = CopyOf(store_);
  EXPECT_EQ(AddJob().id(), "j2-5678");
  EXPECT_EQ(AddJob().id(), "j3-5678");

  const auto load = [&](uint32_t identity) {
    table_ = *JobTable::Load(*backup, clock_, {.identity = identity});
  };
  load(0xabcd);
  EXPECT_EQ(AddJob().id(), "j2-abcd");
  EXPECT_FALSE(table_->IsForgotten("j2-5678")) << "it is of a state that this store does not know";
  EXPECT_FALSE(table_->IsForgotten("j3-5678"));
  load(0xffff);
  EXPECT_EQ(AddJob().id(), "j3-ffff");
  for (const std::string id : {"j1-0000", "j2-abcd", "j3-ffff"}) {
    ASSERT_NE(table_->Find(id), nullptr) << id;
    EXPECT_FALSE(table_->IsForgotten(id));
    ASSERT_TRUE(table_->Remove(*table_->Find(id)).ok());
    EXPECT_TRUE(table_->IsForgotten(id));
  }
  load(0);
  for (const std::string id : {"j1-0000", "j2-abcd", "j3-ffff"}) {
    EXPECT_TRUE(table_->IsForgotten(id)) << id;
  }
  for (const std::string id : {"j1-ffff", "j2-0000", "j2-5678", "j3-abcd", "j4-ffff"}) {
    EXPECT_FALSE(table_->IsForgotten(id)) << id;
  }
}

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

TEST_F(JobTableTest, ANewGenerationIsStoredWithItsProgress) {
  Job& job = AddJob();
  const std::string id = job.id();
  v1::ReportProgressRequest report;
  report.set_clock(10'000);
  job.progress.Add(report, absl::ZeroDuration());
  JobChange change{.record = job.record, .events = {"went back"}};
  change.record.set_generation(job.record.generation() + 1);
  change.record.set_start_clock(9'000);
  ASSERT_TRUE(table_->Commit(job, std::move(change)).ok());
  EXPECT_EQ(job.events.back().step(), 10'000) << "where it was when it went back";
  EXPECT_EQ(job.progress.step(), 9'000);
  Load();
  EXPECT_EQ(table_->Find(id)->progress.step(), 9'000);
}

TEST_F(JobTableTest, ADamagedHistoryIsSaidAndKeepsNoJobFromGoingOn) {
  Job& job = AddJob();
  const std::string id = job.id();
  v1::ReportProgressRequest report;
  for (uint64_t step = 1; step <= 3; ++step) {
    report.set_clock(step);
    report.set_steps(1);
    job.history->history().AddReport(report, 5);
    ASSERT_TRUE(table_->SaveProgress(job).ok());
  }
  JobStoreBatch batch;
  batch.Put(StoreTable::kHistoryChanges, StoreKey(id, uint64_t{3}), "\xff");
  ASSERT_TRUE(store_.Write(batch, JobStore::Durability::kSynced).ok());
  std::vector<std::string> log;
  const auto load = [&] {
    table_ = *JobTable::Load(store_, clock_,
                             {.log = [&log](absl::string_view line) { log.emplace_back(line); }});
  };
  load();
  const Job* loaded = table_->Find(id);
  EXPECT_EQ(LastStep(loaded->history->history()), 2);
  ASSERT_EQ(loaded->events.size(), 2);
  EXPECT_THAT(loaded->events.back().text(),
              ::testing::HasSubstr("history of job " + id + " is damaged: change 3"));
  EXPECT_THAT(log, ::testing::ElementsAre(loaded->events.back().text()));
  // The salvaged history was stored.
  load();
  EXPECT_EQ(LastStep(table_->Find(id)->history->history()), 2);
  EXPECT_EQ(table_->Find(id)->events.size(), 2);
  EXPECT_EQ(log.size(), 1);
  // A newer release's history is not touched.
  batch.Put(StoreTable::kSeries, StoreKey(id, uint64_t{0}), std::string("\x08\x02"));
  ASSERT_TRUE(store_.Write(batch, JobStore::Durability::kSynced).ok());
  EXPECT_EQ(JobTable::Load(store_, clock_, {}).status().code(),
            absl::StatusCode::kFailedPrecondition);
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

TEST_F(JobTableTest, TellsHowAJobsDataArePreparedAfterARestart) {
  v1::JobRecord record;
  record.set_state(v1::PENDING);
  record.mutable_spec()->set_workers(1);
  const std::string given = (*table_->Create(record, "submitted", "given"))->id();
  Job& job = AddJob();
  const std::string learned = job.id();
  JobChange change{.record = job.record};
  change.data_preparation = "learned";
  ASSERT_TRUE(table_->Commit(job, std::move(change)).ok());
  // What says nothing of it leaves it as it is.
  ASSERT_TRUE(table_->Commit(job, {.record = job.record}).ok());
  EXPECT_EQ(job.data_preparation, "learned");
  Load();
  EXPECT_EQ(table_->Find(given)->data_preparation, "given");
  EXPECT_EQ(table_->Find(learned)->data_preparation, "learned");
  ASSERT_TRUE(table_->Remove(*table_->Find(given)).ok());
  int left = 0;
  ASSERT_TRUE(store_
                  .Scan(StoreTable::kDataPreparations, "",
                        [&](absl::string_view, absl::string_view) {
                          ++left;
                          return absl::OkStatus();
                        })
                  .ok());
  EXPECT_EQ(left, 1);
}

TEST_F(JobTableTest, NamesThatNoReleaseTakesTodayAreShortenedWhenTheyAreRead) {
  v1::JobRecord record;
  record.set_state(v1::PENDING);
  record.mutable_spec()->set_workers(1);
  record.mutable_spec()->set_name(std::string(30 << 20, 'n'));
  const std::string id = (*table_->Create(record, "submitted"))->id();
  v1::DaemonRecord daemon;
  daemon.set_id(std::string(33 << 20, 'd'));
  ASSERT_TRUE(table_->PutDaemons({daemon}).ok());
  daemon.set_id("w0");
  ASSERT_TRUE(table_->PutDaemons({daemon}).ok());
  Load();
  EXPECT_EQ(table_->Find(id)->record.spec().name(), std::string(253, 'n') + "…");
  ASSERT_EQ(table_->stored_daemons().size(), 1u);
  EXPECT_EQ(table_->stored_daemons()[0].id(), "w0");
}

TEST_F(JobTableTest, EventsAreNoLongerThanOneMessageHoldsAThousandOf) {
  Job& job = AddJob();
  ASSERT_TRUE(table_->AddEvent(job, std::string(100'000, 'e')).ok());
  EXPECT_EQ(job.events.back().text().size(), size_t{16} << 10);
}

TEST_F(JobTableTest, WhereLogTextComesFromOutlivesARestartAndGoesWithIt) {
  Job& job = AddJob();
  const std::string id = job.id();
  clock_.Advance(absl::Seconds(1000));
  const int64_t now = table_->NowUnixMs();
  ASSERT_TRUE(table_->AppendLog(job, 3, "of three\n").ok());
  ASSERT_TRUE(table_->AppendLog(job, 1, "of one\n").ok());
  // As an earlier release left it.
  JobStoreBatch batch;
  batch.Delete(StoreTable::kLogOrigins, StoreKey(id, 0));
  ASSERT_TRUE(store_.Write(batch, JobStore::Durability::kSynced).ok());
  Load();
  const JobLog& log = table_->Find(id)->log;
  EXPECT_EQ(log.Read(0, 100, 1).text, "of one\n");
  EXPECT_EQ(log.Read(0, 100, 3).text, "");
  EXPECT_EQ(log.Read(0, 100, 3).missing, 9);
  EXPECT_EQ(log.Read(0, 100).text, "of three\nof one\n");
  EXPECT_EQ(log.StartOf({.since_unix_ms = now}), 9) << "the first text has no time";

  const auto origins = [this] {
    int count = 0;
    EXPECT_TRUE(store_
                    .Scan(StoreTable::kLogOrigins, "",
                          [&count](absl::string_view, absl::string_view) {
                            ++count;
                            return absl::OkStatus();
                          })
                    .ok());
    return count;
  };
  EXPECT_EQ(origins(), 1);
  // Text that is dropped takes its origin along.
  ASSERT_TRUE(table_->AppendLog(*table_->Find(id), 0, std::string(4 << 20, 'x')).ok());
  EXPECT_EQ(origins(), 1);
  ASSERT_TRUE(table_->Remove(*table_->Find(id)).ok());
  EXPECT_EQ(origins(), 0);

  batch.Put(StoreTable::kLogOrigins, StoreKey(id, 0), "three");
  ASSERT_TRUE(store_.Write(batch, JobStore::Durability::kSynced).ok());
  EXPECT_EQ(JobTable::Load(store_, clock_, {}).status().code(), absl::StatusCode::kDataLoss);
}

}  // namespace
}  // namespace muster
