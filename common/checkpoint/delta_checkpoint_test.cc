// Chains of deltas: read as if each checkpoint had been written whole, and never trained on when
// any file of any member is not as it was written.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/optional.h"
#include "common/base/status_macros.h"
#include "common/checkpoint/checkpoint_reader.h"
#include "common/checkpoint/delta_base.h"
#include "common/checkpoint/manifest.h"
#include "common/checkpoint/memory_storage.h"
#include "proto/checkpoint.pb.h"

namespace muster {
namespace {

using ::testing::HasSubstr;

constexpr uint32_t kWidth = 2;
constexpr uint64_t kKeys = 40;

struct TestRow {
  uint32_t steps = 0;
  float value = 0;
  // Clock of the last change.
  uint64_t changed = 0;

  friend bool operator==(const TestRow& a, const TestRow& b) {
    return a.steps == b.steps && a.value == b.value;
  }
};
using Table = std::map<uint64_t, TestRow>;

std::string Folder(uint64_t clock) { return CheckpointFolder("/root", "job-1", clock); }

// A table that changes at random, with one dense tensor whose value is the clock.
class ChangingTable {
 public:
  ChangingTable(uint64_t seed, uint32_t partitions) : random_(seed), partitions_(partitions) {}

  const Table& rows() const { return rows_; }

  // One clock: some rows change, some come, some go.
  void Step(uint64_t clock) {
    for (int i = 0; i < 6; ++i) {
      const uint64_t key = random_() % kKeys;
      if (random_() % 4 == 0) {
        if (rows_.erase(key) > 0) dropped_.push_back(key);
        continue;
      }
      TestRow& row = rows_[key];
      ++row.steps;
      row.value = static_cast<float>(100 * clock + key);
      row.changed = clock;
    }
  }

  // Each partition's file is a delta unless `full` says otherwise of it.
  absl::Status Write(CheckpointStorage& storage, uint64_t clock, absl::optional<uint64_t> base,
                     const std::vector<bool>& full) {
    v1::CheckpointManifest manifest;
    manifest.set_job_id("job-1");
    manifest.set_clock(clock);
    if (base.has_value()) manifest.set_base_clock(*base);
    manifest.mutable_schema()->set_partitions(partitions_);
    v1::TensorSchema& tensor = *manifest.mutable_schema()->add_tensors();
    tensor.set_name("w");
    tensor.add_shape(partitions_);
    v1::SparseTableSchema& table = *manifest.mutable_schema()->add_sparse();
    table.set_name("e");
    table.set_dim(1);
    for (uint32_t p = 0; p < partitions_; ++p) {
      MUSTER_ASSIGN_OR_RETURN(const PartitionFileInfo info,
                              WriteFile(storage, clock, full[p] ? absl::nullopt : base, p));
      v1::CheckpointFile& file = *manifest.add_files();
      file.set_partition(p);
      file.set_path(info.path);
      file.set_bytes(info.bytes);
      file.set_checksum(info.checksum);
    }
    dropped_.clear();
    MUSTER_ASSIGN_OR_RETURN(const absl::optional<uint64_t> told,
                            BaseOfFiles(storage, Folder(clock), manifest));
    const bool any_delta =
        base.has_value() && std::find(full.begin(), full.end(), false) != full.end();
    EXPECT_EQ(told, any_delta ? base : absl::nullopt);
    return WriteManifest(storage, Folder(clock), manifest);
  }

 private:
  absl::StatusOr<PartitionFileInfo> WriteFile(CheckpointStorage& storage, uint64_t clock,
                                              absl::optional<uint64_t> base, uint32_t partition) {
    v1::PartitionFileHeader header;
    header.set_job_id("job-1");
    header.set_partition(partition);
    header.set_clock(clock);
    if (base.has_value()) header.set_base_clock(*base);
    v1::DensePiece& w = *header.add_dense();
    w.set_tensor("w");
    w.add_start(0);
    w.add_extent(partitions_);
    w.set_begin(partition);
    w.set_end(partition + 1);
    v1::DensePiece& residual = *header.add_dense();
    residual = w;
    residual.set_tensor("residual/3/w");
    residual.set_no_slots(true);
    v1::SparsePiece& e = *header.add_sparse();
    e.set_table("e");
    e.set_width(kWidth);
    v1::SparsePiece& candidates = *header.add_sparse();
    candidates.set_table("e candidates");
    candidates.set_whole(true);
    MUSTER_ASSIGN_OR_RETURN(const auto writer,
                            PartitionFileWriter::Create(storage, Folder(clock),
                                                        PartitionFileName(partition, 1), header));
    const float value = static_cast<float>(clock);
    MUSTER_RETURN_IF_ERROR(writer->AppendDense({value}, {}));
    MUSTER_RETURN_IF_ERROR(writer->AppendDense({-value}, {}));
    std::vector<uint64_t> keys;
    std::vector<uint32_t> steps, last_use;
    std::vector<float> values;
    for (const auto& [key, row] : rows_) {
      if (key % partitions_ != partition) continue;
      if (base.has_value() && row.changed < *base) continue;
      keys.push_back(key);
      steps.push_back(row.steps);
      last_use.push_back(row.changed);
      values.insert(values.end(), {row.value, -row.value});
    }
    MUSTER_RETURN_IF_ERROR(writer->AppendRows(
        0,
        {.keys = keys, .steps = steps, .last_use = last_use, .values = values, .width = kWidth}));
    if (base.has_value()) {
      std::vector<uint64_t> dropped;
      for (const uint64_t key : dropped_) {
        if (key % partitions_ == partition && !rows_.contains(key)) dropped.push_back(key);
      }
      MUSTER_RETURN_IF_ERROR(writer->AppendDropped(0, dropped));
    }
    const uint64_t candidate = 1000 * clock + partition;
    const uint32_t count = 1;
    MUSTER_RETURN_IF_ERROR(writer->AppendRows(1, {.keys = {&candidate, 1},
                                                  .steps = {&count, 1},
                                                  .last_use = {&count, 1},
                                                  .values = {},
                                                  .width = 0}));
    return writer->Finish();
  }

  std::mt19937_64 random_;
  const uint32_t partitions_;
  Table rows_;
  std::vector<uint64_t> dropped_;
};

// Everything that a restore reads.
absl::Status ReadAll(const CheckpointStorage& storage, uint64_t clock, uint32_t partitions,
                     Table& rows) {
  MUSTER_ASSIGN_OR_RETURN(const auto reader, CheckpointReader::Open(storage, Folder(clock)));
  std::vector<float> dense(partitions);
  MUSTER_RETURN_IF_ERROR(reader->ReadTensor("w", "", 0, absl::MakeSpan(dense)));
  for (const float value : dense) EXPECT_EQ(value, clock);
  MUSTER_RETURN_IF_ERROR(reader->ReadTensor("residual/3/w", "", 0, absl::MakeSpan(dense)));
  for (const float value : dense) EXPECT_EQ(value, -static_cast<float>(clock));
  EXPECT_TRUE(absl::IsNotFound(reader->ReadTensor("residual/4/w", "", 0, absl::MakeSpan(dense))));
  std::vector<uint64_t> order, keys, candidates;
  MUSTER_RETURN_IF_ERROR(
      reader->ReadSparse("e", std::nullopt, [&](const StoredRows& stored) -> absl::Status {
        for (size_t i = 0; i < stored.size(); ++i) {
          order.push_back(stored.keys[i]);
          const absl::Span<const float> values = stored.row(i);
          EXPECT_EQ(values[1], -values[0]);
          const TestRow row{stored.steps[i], values[0], stored.last_use[i]};
          EXPECT_TRUE(rows.emplace(stored.keys[i], row).second) << "key twice";
        }
        return absl::OkStatus();
      }));
  MUSTER_RETURN_IF_ERROR(reader->ReadSparseKeys("e", [&keys](absl::Span<const uint64_t> some) {
    keys.insert(keys.end(), some.begin(), some.end());
    return absl::OkStatus();
  }));
  EXPECT_EQ(keys, order) << "an export writes keys and rows in two passes";
  MUSTER_ASSIGN_OR_RETURN(const uint64_t count, reader->SparseRowCount("e"));
  EXPECT_EQ(count, rows.size());
  MUSTER_RETURN_IF_ERROR(
      reader->ReadSparse("e candidates", std::nullopt, [&](const StoredRows& stored) {
        candidates.insert(candidates.end(), stored.keys.begin(), stored.keys.end());
        return absl::OkStatus();
      }));
  EXPECT_EQ(candidates.size(), partitions) << "only the newest file's";
  EXPECT_EQ(candidates[0], 1000 * clock);
  return absl::OkStatus();
}

class DeltaCheckpointTest : public ::testing::TestWithParam<uint32_t> {};

TEST_P(DeltaCheckpointTest, ReadsAsIfWrittenWhole) {
  const uint32_t partitions = GetParam();
  for (uint64_t seed = 0; seed < 20; ++seed) {
    MemoryStorage storage;
    ChangingTable table(seed, partitions);
    std::mt19937_64 random(seed);
    absl::optional<uint64_t> base;
    uint64_t clock = 0;
    for (int cut = 0; cut < 8; ++cut) {
      for (const uint64_t end = clock + 1 + random() % 4; clock < end; ++clock) table.Step(clock);
      std::vector<bool> full(partitions, !base.has_value());
      // A server that was restarted writes its files whole.
      if (random() % 3 == 0) full[random() % partitions] = true;
      ASSERT_TRUE(table.Write(storage, clock, base, full).ok());
      Table rows;
      const absl::Status status = ReadAll(storage, clock, partitions, rows);
      ASSERT_TRUE(status.ok()) << status;
      ASSERT_EQ(rows, table.rows()) << "seed " << seed << ", clock " << clock;
      base = clock;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Partitions, DeltaCheckpointTest, ::testing::Values(1, 2, 5));

class DamagedChainTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ChangingTable table(1, 2);
    absl::optional<uint64_t> base;
    for (const uint64_t clock : {3, 6, 9}) {
      for (uint64_t c = clock - 3; c < clock; ++c) table.Step(c);
      ASSERT_TRUE(table.Write(storage_, clock, base, {!base, !base}).ok());
      base = clock;
      const std::vector<std::string> names = storage_.List(Folder(clock)).value();
      for (const std::string& name : names) {
        files_.push_back(JoinUri(Folder(clock), name));
      }
    }
    ASSERT_EQ(files_.size(), 9u);
  }

  // The chain is read nowhere, and `uri` is named, by a restore and by an audit.
  void ExpectFound(const std::string& uri, const std::string& how) {
    Table rows;
    const absl::Status read = ReadAll(storage_, 9, 2, rows);
    ASSERT_FALSE(read.ok()) << uri << ", " << how;
    ASSERT_THAT(read.message(), HasSubstr(uri)) << how;
    const auto audit = AuditCheckpoint(storage_, Folder(9));
    // A manifest that is not there is no checkpoint.
    if (!audit.ok()) {
      ASSERT_TRUE(absl::IsNotFound(audit.status())) << audit.status();
      ASSERT_EQ(how, "missing");
      return;
    }
    ASSERT_EQ(audit->damage.size(), 1u) << uri << ", " << how;
    ASSERT_THAT(audit->damage[0].message(), HasSubstr(uri)) << how;
  }

  MemoryStorage storage_;
  std::vector<std::string> files_;
};

TEST_F(DamagedChainTest, EveryFlippedBitOfEveryFileIsFound) {
  for (const std::string& uri : files_) {
    const std::string sound = ReadFile(storage_, uri).value();
    for (size_t bit = 0; bit < 8 * sound.size(); ++bit) {
      std::string bytes = sound;
      bytes[bit / 8] ^= 1 << (bit % 8);
      ASSERT_TRUE(ReplaceFile(storage_, uri, bytes).ok());
      ASSERT_NO_FATAL_FAILURE(ExpectFound(uri, absl::StrCat("bit ", bit)));
    }
    ASSERT_TRUE(ReplaceFile(storage_, uri, sound).ok());
  }
}

TEST_F(DamagedChainTest, EveryTruncationOfEveryFileIsFound) {
  for (const std::string& uri : files_) {
    const std::string sound = ReadFile(storage_, uri).value();
    for (size_t length = 0; length < sound.size(); ++length) {
      ASSERT_TRUE(ReplaceFile(storage_, uri, sound.substr(0, length)).ok());
      ASSERT_NO_FATAL_FAILURE(ExpectFound(uri, absl::StrCat(length, " bytes")));
    }
    ASSERT_TRUE(ReplaceFile(storage_, uri, sound + "x").ok());
    ASSERT_NO_FATAL_FAILURE(ExpectFound(uri, "a byte more"));
    ASSERT_TRUE(storage_.DeleteRecursively(uri).ok());
    ASSERT_NO_FATAL_FAILURE(ExpectFound(uri.substr(0, uri.rfind('/')), "missing"));
    ASSERT_TRUE(ReplaceFile(storage_, uri, sound).ok());
  }
}

}  // namespace
}  // namespace muster
