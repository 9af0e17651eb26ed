#include "common/tables/table_snapshot.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "proto/job.pb.h"

namespace muster {
namespace {

using Contents = std::map<uint64_t, std::vector<float>>;

class TableSnapshotTest : public testing::Test {
 protected:
  TableSnapshotTest() {
    v1::OptimizerSpec spec;
    // Three floats a row: no multiple of a row's alignment.
    spec.set_name("row_wise_adagrad");
    spec.set_learning_rate(1);
    optimizer_ = *CreateOptimizer(spec, Granularity::kRow);
    table_ = std::make_unique<SparseTable>(spec_, 1, *optimizer_);
  }

  uint64_t Below(uint64_t bound) { return random_() % bound; }

  // Some rows change, come or go, also into places that became free.
  void Change(int changes) {
    for (int i = 0; i < changes; ++i) {
      const uint64_t key = Below(300);
      const uint32_t number = table_->Find(key);
      const uint64_t what = Below(6);
      if (what == 0 && number != SparseTable::kMissing) {
        table_->Erase(number);
      } else if (what == 1) {
        table_->Load(key).values()[0] += 1;
      } else if (what == 2 && number == SparseTable::kMissing) {
        SparseTable::Row& row = table_->At(table_->AddUnfilled(key));
        std::fill_n(row.values(), table_->width(), static_cast<float>(key));
      } else {
        const std::vector<float> gradient(spec_.dim, static_cast<float>(Below(9)));
        table_->Update({key}, gradient, step_, SparseTable::Steps::kPerRow,
                       static_cast<uint32_t>(++clock_), 0);
      }
    }
  }

  static std::vector<float> Values(uint32_t steps, uint32_t last_use,
                                   absl::Span<const float> values) {
    std::vector<float> all(values.begin(), values.end());
    all.push_back(static_cast<float>(steps));
    all.push_back(static_cast<float>(last_use));
    return all;
  }

  Contents Now(uint32_t since = 0) const {
    Contents contents;
    for (const SparseTable::Row* row : table_->Sorted()) {
      if (row->last_use < since) continue;
      contents[row->key] = Values(row->steps, row->last_use, {row->values(), table_->width()});
    }
    return contents;
  }

  const SparseTableSpec spec_{
      .name = "t",
      .dim = 2,
      .initializer = {.kind = Initializer::Kind::kUniform, .scale = 1, .value = 0},
      .weight_decay = false};
  std::unique_ptr<const Optimizer> optimizer_;
  std::unique_ptr<SparseTable> table_;
  OptimizerStep step_;
  uint64_t clock_ = 0;
  std::mt19937_64 random_{1};
};

TEST_F(TableSnapshotTest, HoldsTheMomentWhateverChangesOnTheWay) {
  for (int round = 0; round < 300; ++round) {
    Change(static_cast<int>(Below(200)));
    const uint32_t since = Below(2) == 0 ? 0 : static_cast<uint32_t>(Below(clock_ + 1));
    const Contents expected = Now(since);
    const size_t rows = table_->rows();
    const int pace = static_cast<int>(Below(30));
    TableSnapshot snapshot(*table_);
    const auto wanted = [since](uint32_t, uint32_t last_use) { return last_use >= since; };
    std::vector<TableSnapshot::Entry> entries;
    for (bool last = false; !last;) {
      Change(pace);
      last = snapshot.Collect(1 + Below(50), wanted, entries);
    }
    ASSERT_EQ(entries.size(), rows) << "a key for each row of the moment, wanted or not";
    std::sort(entries.begin(), entries.end());
    Contents read;
    TableSnapshot::Rows chunk;
    for (size_t begin = 0; begin < entries.size();) {
      Change(pace);
      const size_t count = std::min<size_t>(1 + Below(40), entries.size() - begin);
      chunk.Clear();
      snapshot.Read(absl::MakeConstSpan(entries).subspan(begin, count), chunk);
      begin += count;
      const StoredRows rows_read = chunk.view();
      for (size_t i = 0; i < rows_read.size(); ++i) {
        ASSERT_TRUE(read.emplace(rows_read.keys[i], Values(rows_read.steps[i],
                                                           rows_read.last_use[i], rows_read.row(i)))
                        .second);
      }
    }
    ASSERT_EQ(read, expected) << "round " << round;
  }
}

TEST_F(TableSnapshotTest, OnlyRowsThatChangeAreCopied) {
  for (uint64_t key = 0; key < 2000; ++key) table_->Load(key);
  TableSnapshot snapshot(*table_);
  EXPECT_EQ(snapshot.memory_bytes(), 0u);
  table_->Load(5).values()[0] = 1;
  const size_t one = snapshot.memory_bytes();
  EXPECT_GT(one, 0u);
  table_->Load(5).values()[0] = 2;
  table_->Load(3000).values()[0] = 2;
  EXPECT_EQ(snapshot.memory_bytes(), one);
  // What was read, or is not wanted, need not be kept.
  std::vector<TableSnapshot::Entry> entries;
  EXPECT_FALSE(snapshot.Collect(
      1999, [](uint32_t, uint32_t) { return false; }, entries));
  for (uint64_t key = 0; key < 1900; ++key) table_->Load(key).values()[0] = 3;
  EXPECT_EQ(snapshot.memory_bytes(), one);
}

}  // namespace
}  // namespace muster
