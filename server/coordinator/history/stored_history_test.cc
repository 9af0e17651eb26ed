#include "server/coordinator/history/stored_history.h"

#include <filesystem>
#include <map>
#include <random>

#include "absl/strings/str_cat.h"
#include "common/history/series_proto.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/job_record.pb.h"
#include "proto/metrics.pb.h"
#include "proto/task_service.pb.h"
#include "server/coordinator/history/last_step_for_testing.h"
#include "server/coordinator/store/memory_job_store_for_testing.h"
#include "server/coordinator/store/rocksdb_job_store.h"

namespace muster {
namespace {

using ::testing::ElementsAre;

constexpr absl::string_view kJob = "j1-0000";
constexpr HistoryOptions kTwoSlots = {.slots = 2};
using Part = StoredHistory::Part;

// The content of a history, to compare.
struct Shown {
  std::map<std::string, std::vector<SeriesPoint>> series;
  std::vector<JobHistory::Mark> marks;

  bool operator==(const Shown&) const = default;
};

Shown Show(const JobHistory& history) {
  Shown shown;
  for (const JobHistory::Named& named : history.series()) {
    const auto points = named.series.points();
    shown.series[named.name] = {points.begin(), points.end()};
  }
  shown.marks = {history.marks().begin(), history.marks().end()};
  return shown;
}

// Bytes of a job's records in a store.
size_t StoredBytes(const JobStore& store) {
  size_t bytes = 0;
  for (StoreTable table :
       {StoreTable::kSeries, StoreTable::kHistoryChanges, StoreTable::kHistories}) {
    EXPECT_TRUE(store
                    .Scan(table, "",
                          [&](absl::string_view key, absl::string_view value) {
                            bytes += key.size() + value.size();
                            return absl::OkStatus();
                          })
                    .ok());
  }
  return bytes;
}

size_t BytesOf(const JobStoreBatch& batch) {
  size_t bytes = 0;
  for (const JobStoreBatch::Change& change : batch.changes()) bytes += change.value.size();
  return bytes;
}

std::unique_ptr<StoredHistory> Read(const JobStore& store) {
  auto read = StoredHistory::Read(store, std::string(kJob), kTwoSlots);
  EXPECT_TRUE(read.ok()) << read.status();
  return *std::move(read);
}

void AddReports(StoredHistory& stored, uint64_t first, uint64_t last, double value, int names = 2) {
  for (uint32_t slot = 0; slot < 2; ++slot) {
    v1::ReportProgressRequest report;
    report.mutable_task()->set_slot(slot);
    report.set_clock(last);
    report.set_steps(last - first + 1);
    report.set_examples(1);
    // One task speaks for all, except for losses.
    for (int i = 0; i < (slot == 0 ? names : 1); ++i) {
      v1::ReportedSeries& series = *report.add_series();
      series.set_name(i == 0 ? "train/loss" : absl::StrCat("train/", i));
      for (uint64_t step = first; step <= last; ++step) {
        ToProto(OneValue(step, value), *series.add_points());
      }
    }
    stored.history().AddReport(report, 5);
  }
  stored.history().Settle({0, 1}, absl::ZeroDuration(), 5);
}

void Write(StoredHistory& stored, const Part& part, JobStore& store) {
  JobStoreBatch batch;
  stored.AddTo(batch, part);
  ASSERT_TRUE(store.Write(batch, JobStore::Durability::kBuffered).ok());
  stored.Written();
}

TEST(StoredHistoryTest, AnEmptyHistoryStoresNothing) {
  StoredHistory stored(std::string(kJob), kTwoSlots);
  JobStoreBatch batch;
  stored.AddTo(batch, {.changes = true});
  EXPECT_TRUE(batch.empty());
  MemoryJobStore store;
  EXPECT_EQ(Show(Read(store)->history()), Shown());
}

TEST(StoredHistoryTest, WhatIsWrittenIsReadAgain) {
  MemoryJobStore store;
  StoredHistory stored(std::string(kJob), kTwoSlots);
  AddReports(stored, 1, 10, 1.5);
  Write(stored, {.changes = true}, store);
  EXPECT_EQ(Show(Read(store)->history()), Show(stored.history()));
  EXPECT_FALSE(stored.history().changed());
  const Shown written = Show(stored.history());
  // What came after the last write is lost; a write that failed changes nothing.
  AddReports(stored, 11, 20, 2.5);
  JobStoreBatch lost;
  stored.AddTo(lost, {.changes = true});
  EXPECT_EQ(Show(Read(store)->history()), written);
  AddReports(stored, 21, 30, 3.5);
  Write(stored, {.changes = true}, store);
  EXPECT_EQ(Show(Read(store)->history()), Show(stored.history()));
}

TEST(StoredHistoryTest, ACutIsStoredWhateverElseIsNot) {
  MemoryJobStore store;
  StoredHistory stored(std::string(kJob), kTwoSlots);
  stored.history().SetBoundaries({.clocks = {5}});
  AddReports(stored, 1, 5, 1);
  AddReports(stored, 6, 10, 2);
  Write(stored, {.changes = true}, store);
  AddReports(stored, 11, 15, 3);
  Write(stored, {.cut = JobHistory::Mark{.clock = 5, .reached = 15, .unix_ms = 6}}, store);
  EXPECT_EQ(Show(Read(store)->history()), Show(stored.history()));
  EXPECT_EQ(LastStep(Read(store)->history()), 5);
  EXPECT_THAT(Read(store)->history().marks(), ElementsAre(JobHistory::Mark{5, 15, 6}));
  // Steps from before the roll-back and after it never meet.
  AddReports(stored, 6, 8, 4);
  EXPECT_EQ(LastStep(Read(store)->history()), 5);
  Write(stored, {.changes = true}, store);
  EXPECT_EQ(Show(Read(store)->history()), Show(stored.history()));
}

TEST(StoredHistoryTest, AnEndedJobIsStoredInFewerPoints) {
  MemoryJobStore store;
  StoredHistory stored(std::string(kJob), kTwoSlots);
  for (uint64_t step = 1; step <= 3000; ++step) AddReports(stored, step, step, 1);
  Write(stored, {.changes = true}, store);
  const size_t before = StoredBytes(store);
  Write(stored, {.changes = true, .end = Part::End{.now = absl::Seconds(7), .unix_ms = 7}}, store);
  const auto ended = Read(store);
  EXPECT_LT(StoredBytes(store), before / 2);
  EXPECT_EQ(LastStep(ended->history()), 3000);
  uint64_t values = 0;
  for (const SeriesPoint& point : ended->history().series()[0].series.points()) {
    values += point.values;
  }
  EXPECT_EQ(values, 3000);
  JobStoreBatch batch;
  StoredHistory::Remove(std::string(kJob), batch);
  ASSERT_TRUE(store.Write(batch, JobStore::Durability::kSynced).ok());
  EXPECT_EQ(StoredBytes(store), 0);
}

TEST(StoredHistoryTest, DamageAndNewerReleasesAreNamed) {
  for (StoreTable table :
       {StoreTable::kSeries, StoreTable::kHistoryChanges, StoreTable::kHistories}) {
    const std::string key =
        table == StoreTable::kHistories ? std::string(kJob) : StoreKey(kJob, uint64_t{1});
    for (const std::string& value : {std::string("\x08\x02"), std::string("\x08")}) {
      MemoryJobStore store;
      JobStoreBatch batch;
      batch.Put(table, key, value);
      ASSERT_TRUE(store.Write(batch, JobStore::Durability::kSynced).ok());
      const absl::Status status = StoredHistory::Read(store, std::string(kJob), kTwoSlots).status();
      EXPECT_EQ(status.code(), value.size() == 2 ? absl::StatusCode::kFailedPrecondition
                                                 : absl::StatusCode::kDataLoss);
      EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr(kJob));
    }
  }
  // A change that keeps points which are not there, and one of a series that began nowhere.
  for (uint32_t series : {0u, 1u}) {
    v1::HistoryChangeRecord record;
    v1::HistoryChangeRecord::ChangedSeries& changed = *record.add_series();
    changed.set_series(series);
    changed.set_name("train/loss");
    changed.set_kept(1 - series);
    MemoryJobStore store;
    JobStoreBatch batch;
    batch.Put(StoreTable::kHistoryChanges, StoreKey(kJob, uint64_t{1}), record.SerializeAsString());
    ASSERT_TRUE(store.Write(batch, JobStore::Durability::kSynced).ok());
    EXPECT_EQ(StoredHistory::Read(store, std::string(kJob), kTwoSlots).status().code(),
              absl::StatusCode::kDataLoss);
  }
}

// Reports, writes, roll-backs and crashes at random. A crash loses what was not written; the store
// always holds exactly the history as of the last write.
void RunRandomHistory(uint32_t seed) {
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  MemoryJobStore store;
  auto stored = std::make_unique<StoredHistory>(std::string(kJob), kTwoSlots);
  Boundaries boundaries{.every = 1 + random() % 50};
  uint64_t step = 0;
  Shown written;
  const int names = 1 + random() % 5;
  for (int round = 0; round < 400; ++round) {
    stored->history().SetBoundaries(boundaries);
    const uint64_t what = random() % 100;
    if (what < 60) {
      const uint64_t last = step + 1 + random() % 40;
      AddReports(*stored, step + 1, last, static_cast<double>(random() % 100), names);
      step = last;
    } else if (what < 80) {
      ASSERT_NO_FATAL_FAILURE(Write(*stored, {.changes = true}, store));
      written = Show(stored->history());
    } else if (what < 90) {
      const uint64_t last = step / boundaries.every * boundaries.every;
      if (boundaries.clocks.empty() || boundaries.clocks.back() < last) {
        boundaries.clocks.push_back(last);
        if (boundaries.clocks.size() > 2) boundaries.clocks.erase(boundaries.clocks.begin());
      }
    } else if (what < 95 && !boundaries.clocks.empty()) {
      const uint64_t clock = boundaries.clocks[random() % boundaries.clocks.size()];
      std::erase_if(boundaries.clocks, [clock](uint64_t c) { return c > clock; });
      const JobHistory::Mark mark{.clock = clock, .reached = step, .unix_ms = round};
      const bool changes = random() % 2 == 0;
      if (random() % 4 == 0) {
        JobStoreBatch failed;
        stored->AddTo(failed, {.changes = true, .cut = mark});
      }
      ASSERT_NO_FATAL_FAILURE(Write(*stored, {.changes = changes, .cut = mark}, store));
      step = clock;
      if (changes) {
        written = Show(stored->history());
      } else {
        for (auto& [name, points] : written.series) {
          std::erase_if(points, [clock](const SeriesPoint& p) { return p.last_step > clock; });
        }
        written.marks.push_back(mark);
      }
    } else {
      stored = Read(store);
      step = LastStep(stored->history());
    }
    if (round % 20 == 0) ASSERT_EQ(Show(Read(store)->history()), written);
  }
  ASSERT_EQ(Show(Read(store)->history()), written);
}

// The stored history of a job that trains and goes back. A step's value is its generation.
class GenerationsOfSteps {
 public:
  explicit GenerationsOfSteps(std::mt19937& random) : random_(random) {
    for (int round = 0; round < 60; ++round) {
      stored_.history().SetBoundaries({.clocks = {Base()}});
      const uint64_t step = generations_.size();
      if (random_() % 5 > 0) {
        const uint64_t last = step + 1 + random_() % 40;
        AddReports(stored_, step + 1, last, generation_);
        generations_.resize(last, generation_);
        Write(stored_, {.changes = true}, store);
      } else {
        const JobHistory::Mark mark{.clock = Base(), .reached = step, .unix_ms = round};
        Write(stored_, {.changes = true, .cut = mark}, store);
        generations_.resize(Base());
        ++generation_;
      }
    }
  }

  // Checks that each point has the values of the last generation that made its steps.
  void Check(const JobHistory& history) const {
    for (const JobHistory::Named& named : history.series()) {
      if (named.name.substr(0, 5) != "train") continue;
      for (const SeriesPoint& point : named.series.points()) {
        ASSERT_LE(point.last_step, generations_.size());
        ASSERT_EQ(point.min, generations_[point.first_step - 1]) << named.name;
        ASSERT_EQ(point.max, generations_[point.last_step - 1]) << named.name;
      }
    }
  }

  // Damages one record of a table. Returns false if it has none.
  bool Damage(StoreTable table, const std::string& bytes) {
    std::vector<std::string> keys;
    EXPECT_TRUE(store
                    .Scan(table, "",
                          [&](absl::string_view key, absl::string_view) {
                            keys.emplace_back(key);
                            return absl::OkStatus();
                          })
                    .ok());
    if (keys.empty()) return false;
    JobStoreBatch batch;
    batch.Put(table, keys[random_() % keys.size()], bytes);
    EXPECT_TRUE(store.Write(batch, JobStore::Durability::kSynced).ok());
    return true;
  }

  uint64_t step() const { return generations_.size(); }

  MemoryJobStore store;

 private:
  // Returns the clock to which the job goes back.
  uint64_t Base() const { return generations_.size() / 50 * 50; }

  std::mt19937& random_;
  StoredHistory stored_{std::string(kJob), kTwoSlots};
  // The generation that made each step, from step 1 on.
  std::vector<int> generations_;
  int generation_ = 1;
};

TEST(StoredHistoryPropertyTest, OfADamagedHistoryNothingWrongIsShown) {
  std::mt19937 random(1);
  int damaged = 0, kept = 0;
  for (int round = 0; round < 300; ++round) {
    SCOPED_TRACE(round);
    GenerationsOfSteps job(random);
    ASSERT_NO_FATAL_FAILURE(job.Check(Read(job.store)->history()));
    const StoreTable table = std::vector{StoreTable::kHistoryChanges, StoreTable::kHistoryChanges,
                                         StoreTable::kSeries, StoreTable::kHistories}[round % 4];
    if (!job.Damage(table, "\xff")) continue;
    ++damaged;
    ASSERT_EQ(StoredHistory::Read(job.store, std::string(kJob), kTwoSlots).status().code(),
              absl::StatusCode::kDataLoss);
    JobStoreBatch batch;
    auto salvaged = StoredHistory::Salvage(job.store, std::string(kJob), kTwoSlots, batch);
    ASSERT_TRUE(salvaged.ok()) << salvaged.status();
    ASSERT_NO_FATAL_FAILURE(job.Check((*salvaged)->history()));
    kept += LastStep((*salvaged)->history()) > 0 ? 1 : 0;
    // The history is stored and goes on.
    ASSERT_TRUE(job.store.Write(batch, JobStore::Durability::kSynced).ok());
    ASSERT_EQ(Show(Read(job.store)->history()), Show((*salvaged)->history()));
    AddReports(**salvaged, job.step() + 1, job.step() + 3, 100);
    ASSERT_NO_FATAL_FAILURE(Write(**salvaged, {.changes = true}, job.store));
    ASSERT_EQ(Show(Read(job.store)->history()), Show((*salvaged)->history()));
    ASSERT_EQ(LastStep((*salvaged)->history()), job.step() + 3);
  }
  EXPECT_GT(damaged, 150);
  EXPECT_GT(kept, 50);
}

TEST(StoredHistoryPropertyTest, TheStoreHoldsTheLastWrite) {
  for (uint32_t seed = 1; seed <= 25; ++seed) ASSERT_NO_FATAL_FAILURE(RunRandomHistory(seed));
}

TEST(StoredHistoryPropertyTest, TenMillionPointsTakeBoundedDiskAndFewWrites) {
  const std::string folder = absl::StrCat(::testing::TempDir(), "/ten_million_points");
  std::filesystem::remove_all(folder);
  size_t written = 0, most = 0, largest = 0;
  {
    auto store = *RocksDbJobStore::Open(folder);
    StoredHistory stored(std::string(kJob), kTwoSlots);
    // 125 series of two slots' reports; a write for each 500 steps.
    uint64_t step = 0;
    for (int writes = 0; writes < 160; ++writes) {
      for (int reports = 0; reports < 10; ++reports, step += 50) {
        AddReports(stored, step + 1, step + 50, 1.25, 125);
      }
      JobStoreBatch batch;
      stored.AddTo(batch, {.changes = true});
      largest = std::max(largest, BytesOf(batch));
      written += BytesOf(batch);
      ASSERT_TRUE(store->Write(batch, JobStore::Durability::kBuffered).ok());
      stored.Written();
      if (writes % 10 == 0) most = std::max(most, StoredBytes(*store));
    }
    EXPECT_EQ(step * 125, 10'000'000);
    EXPECT_EQ(Show(Read(*store)->history()), Show(stored.history()));
  }
  // Series take about 57 bytes a point. Each level stores them all once more, changes as much
  // again, and new series anew.
  const size_t series = (48 * 4096 + 77 * 2048) * 57;
  EXPECT_LE(most, 3 * series);
  EXPECT_LE(largest, 3 * series);
  EXPECT_LE(written, 40 * series);
  uint64_t disk = 0;
  for (const auto& file : std::filesystem::recursive_directory_iterator(folder)) {
    if (file.is_regular_file()) disk += file.file_size();
  }
  EXPECT_LE(disk, 6 * series);
}

}  // namespace
}  // namespace muster
