#include "server/shard/partition/journal/partition_journal.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "proto/partition_state.pb.h"
#include "server/shard/calls/test_exchange.h"
#include "server/shard/storage/fake_log_file.h"
#include "server/shard/storage/memory_store_for_testing.h"

namespace muster {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

class PartitionJournalTest : public testing::Test {
 protected:
  PartitionJournalTest() {
    EXPECT_TRUE(files_.CreateDirectory("/logs").ok());
    tables_ = NewTables();
    Open();
  }

  void Open() {
    MutationLog::Options options;
    options.file_system = &files_;
    options.segment_bytes = 4096;
    auto journal = PartitionJournal::Open(store_, "/logs/p", options);
    ASSERT_TRUE(journal.ok()) << journal.status();
    journal_ = *std::move(journal);
  }

  std::unique_ptr<PartitionTables> NewTables() {
    v1::OpenTablesRequest request = TestOpenRequest(1);
    request.mutable_update()->set_durability(v1::UpdateSpec::EVERY_PUSH);
    return std::make_unique<PartitionTables>(*JobTables::Create(request), 0,
                                             BufferPool::Create(1 << 20), &store_);
  }

  absl::Status WriteImage(uint64_t lsn, PartitionJournal::Extent extent, bool finish = true) {
    v1::PartitionState state;
    state.set_lsn(lsn);
    state.set_completed_clocks(lsn);
    return journal_->WriteImage(*tables_, state, extent, [finish] { return finish; });
  }

  // Changes block 0 and the row of `key` under a record.
  void Change(uint64_t lsn, uint64_t key) {
    tables_->dense.Update(0, Floats({1, 1, 1, 1}), {.learning_rate = 1}, lsn);
    const std::vector<uint64_t> keys = {key};
    const auto fetched = tables_->sparse[0].Fetch(keys);
    ASSERT_TRUE(fetched.ok()) << fetched.status();
    tables_->sparse[0].Update(*fetched, {1, 1}, {.learning_rate = 1}, SparseTable::Steps::kPerRow,
                              /*clock=*/2, /*completed=*/2, lsn);
  }

  uint64_t StoredLsn() const { return (*ReadPartitionState(store_, "job", 0))->lsn(); }

  MemoryStore store_;
  FakeLogFileSystem files_;
  std::unique_ptr<PartitionTables> tables_;
  std::unique_ptr<PartitionJournal> journal_;
};

TEST_F(PartitionJournalTest, RepeatsWhatWasAppended) {
  const auto first = journal_->Append(TestDensePush(0, 0, 0, 1), Floats({1, 2, 3, 4}));
  const auto second = journal_->Append(TestClose(0, 0, 0), {});
  ASSERT_TRUE(first.ok() && second.ok());
  ASSERT_TRUE(journal_->Sync().ok());
  files_.Crash(1);
  Open();
  EXPECT_EQ(journal_->last_lsn(), *second);
  std::vector<std::string> seen;
  ASSERT_TRUE(journal_
                  ->Replay(0,
                           [&](uint64_t lsn, std::shared_ptr<const v1::ExchangeRequest> request,
                               Payload payload) {
                             seen.push_back(absl::StrCat(
                                 lsn, request->has_close() ? " close " : " push ", payload.size()));
                             return absl::OkStatus();
                           })
                  .ok());
  EXPECT_THAT(seen, ElementsAre("1 push 16", "2 close 0"));
  EXPECT_GT(journal_->bytes_since_image(), 16u);
}

TEST_F(PartitionJournalTest, AnImageComesBack) {
  Change(1, 5);
  ASSERT_TRUE(WriteImage(1, PartitionJournal::Extent::kChanged).ok());
  EXPECT_EQ(journal_->bytes_since_image(), 0u);
  tables_ = NewTables();
  const auto highest = journal_->ReadImage(1, *tables_);
  ASSERT_TRUE(highest.ok()) << highest.status();
  EXPECT_EQ(*highest, 1u);
  EXPECT_THAT(tables_->dense.block(0).weights.Peek(), Each(0));
  EXPECT_EQ(tables_->dense.block(0).steps, 1u);
  EXPECT_THAT(tables_->dense.block(1).weights.Peek(), Each(1));
  ASSERT_EQ(tables_->sparse[0].rows(), 1u);
  const SparseTable::Row& row = tables_->sparse[0].memory().Load(5);
  EXPECT_EQ(row.values()[0], -0.5);
  EXPECT_EQ(row.last_use, 2u);
}

TEST_F(PartitionJournalTest, AnImageThatWasCutShortLeavesNewerValuesUnderAnOlderState) {
  ASSERT_TRUE(WriteImage(0, PartitionJournal::Extent::kChanged).ok());
  ASSERT_TRUE(journal_->Append(TestClose(0, 0, 0), {}).ok());
  Change(1, 5);
  ASSERT_TRUE(WriteImage(1, PartitionJournal::Extent::kChanged, false).ok());
  EXPECT_EQ(StoredLsn(), 0u);
  tables_ = NewTables();
  EXPECT_EQ(*journal_->ReadImage(0, *tables_), 1u);
  EXPECT_EQ(tables_->dense.block(0).lsn, 1u);
  int records = 0;
  ASSERT_TRUE(journal_
                  ->Replay(0,
                           [&](uint64_t, std::shared_ptr<const v1::ExchangeRequest>, Payload) {
                             ++records;
                             return absl::OkStatus();
                           })
                  .ok());
  EXPECT_EQ(records, 1);
}

TEST_F(PartitionJournalTest, TakesAllOrWhatChanged) {
  ASSERT_TRUE(WriteImage(0, PartitionJournal::Extent::kChanged).ok());
  int blocks = 0;
  const auto count = [&](uint64_t, ParameterStore::Value) {
    ++blocks;
    return absl::OkStatus();
  };
  ASSERT_TRUE(store_.Scan("job", 0, 0, count).ok());
  EXPECT_EQ(blocks, 0);
  ASSERT_TRUE(WriteImage(0, PartitionJournal::Extent::kAll).ok());
  ASSERT_TRUE(store_.Scan("job", 0, 0, count).ok());
  EXPECT_EQ(blocks, 2);
}

TEST_F(PartitionJournalTest, NewerAndDamagedStatesAreRefused) {
  EXPECT_EQ(*ReadPartitionState(store_, "job", 0), nullptr);
  v1::PartitionState state;
  state.set_format_version(99);
  const auto write = [&](const std::string& bytes) {
    StoreBatch batch("job");
    batch.PutMeta(0, {reinterpret_cast<const std::byte*>(bytes.data()), bytes.size()});
    ASSERT_TRUE(store_.Write(batch, ParameterStore::Durability::kSync).ok());
  };
  write(state.SerializeAsString());
  EXPECT_TRUE(absl::IsFailedPrecondition(ReadPartitionState(store_, "job", 0).status()));
  write("\xff\xff");
  EXPECT_TRUE(absl::IsDataLoss(ReadPartitionState(store_, "job", 0).status()));
}

}  // namespace
}  // namespace muster
