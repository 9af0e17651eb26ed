// Checkpoints: cut by one engine, restored by another generation on other partitions.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/checkpoint/manifest.h"
#include "common/partition/layout_from_schema_for_testing.h"
#include "common/partition/schema.h"
#include "common/partition/sparse_placement.h"
#include "proto/checkpoint.pb.h"
#include "server/shard/test_engine.h"

namespace muster {
namespace {

// Trains with `from` partitions, takes a checkpoint, and goes on from it with `to` partitions.
class RestoreTest : public TestEngine,
                    public testing::WithParamInterface<std::pair<uint32_t, uint32_t>> {
 protected:
  static v1::OpenTablesRequest Request(uint32_t partitions) {
    v1::OpenTablesRequest request = TestOpenRequest(1);
    request.mutable_schema()->set_partitions(partitions);
    request.mutable_schema()->mutable_optimizer()->set_name("momentum");
    request.mutable_schema()->mutable_optimizer()->set_learning_rate(0.125);
    request.mutable_schema()->mutable_optimizer()->set_momentum(0.5);
    request.clear_partitions();
    for (uint32_t i = 0; i < partitions; ++i) request.add_partitions()->set_partition(i);
    return request;
  }

  // Every partition's blocks and keys 0…19.
  void TrainStep(const v1::OpenTablesRequest& job, uint64_t clock) {
    const uint32_t partitions = job.schema().partitions();
    const auto tables = LayoutFromSchema(job.schema());
    for (uint32_t p = 0; p < partitions; ++p) {
      const auto send = [&](v1::ExchangeRequest request, Payload payload) {
        request.set_generation(job.generation());
        request.set_partition(p);
        Do(request, std::move(payload));
      };
      std::vector<float> gradient;
      for (uint32_t id : tables.partition_blocks(p)) {
        for (uint64_t i = tables.blocks()[id].begin; i < tables.blocks()[id].end; ++i) {
          gradient.push_back(i + 1);
        }
      }
      const uint32_t blocks = tables.partition_blocks(p).size();
      if (blocks > 0) send(TestDensePush(0, clock, 0, blocks), Floats(gradient));
      std::vector<uint64_t> keys = KeysOf(p, partitions);
      std::vector<float> rows;
      for (uint64_t key : keys) rows.insert(rows.end(), {1.f * key, -1.f * key});
      send(TestSparsePush(0, clock, 0, keys.size()), KeysAndRows(keys, rows));
      send(TestClose(0, clock, 1), {});
    }
  }

  static std::vector<uint64_t> KeysOf(uint32_t partition, uint32_t partitions) {
    std::vector<uint64_t> keys;
    for (uint64_t key = 0; key < 20; ++key) {
      if (SparsePartition(key, partitions) == partition) keys.push_back(key);
    }
    return keys;
  }

  // Elements of "w", then the rows of keys 0…19.
  std::vector<float> Values(const v1::OpenTablesRequest& job, uint64_t clock) {
    const uint32_t partitions = job.schema().partitions();
    const auto layout = LayoutFromSchema(job.schema());
    std::vector<float> values(8 + 40);
    for (uint32_t p = 0; p < partitions; ++p) {
      const uint32_t blocks = layout.partition_blocks(p).size();
      v1::ExchangeRequest pull = TestDensePull(0, clock, 0, blocks);
      pull.set_generation(job.generation());
      pull.set_partition(p);
      if (blocks > 0) {
        const std::vector<float> weights = Do(pull).floats();
        size_t at = 0;
        for (uint32_t id : layout.partition_blocks(p)) {
          for (uint64_t i = layout.blocks()[id].begin; i < layout.blocks()[id].end; ++i) {
            values[i] = weights[at++];
          }
        }
      }
      const std::vector<uint64_t> keys = KeysOf(p, partitions);
      pull = TestSparsePull(0, clock, keys.size());
      pull.set_generation(job.generation());
      pull.set_partition(p);
      const std::vector<float> rows = Do(pull, KeysAndRows(keys, {})).floats();
      for (size_t i = 0; i < keys.size(); ++i) {
        values[8 + 2 * keys[i]] = rows[2 * i];
        values[8 + 2 * keys[i] + 1] = rows[2 * i + 1];
      }
    }
    return values;
  }

  // Takes the cut and completes the checkpoint as the coordinator does; returns its folder.
  std::string Checkpoint(const v1::OpenTablesRequest& job, uint64_t clock) {
    v1::CheckpointManifest manifest;
    manifest.set_job_id("job");
    manifest.set_generation(job.generation());
    manifest.set_clock(clock);
    *manifest.mutable_schema() = job.schema();
    for (uint32_t p = 0; p < job.schema().partitions(); ++p) {
      v1::ExchangeRequest cut = TestCut(0, clock);
      cut.set_generation(job.generation());
      cut.set_partition(p);
      const TestAnswer answer = Do(cut);
      v1::CheckpointFile& file = *manifest.add_files();
      file.set_partition(p);
      file.set_path(answer.reply().checkpoint_path());
      file.set_bytes(answer.reply().checkpoint_bytes());
      file.set_checksum(answer.reply().checkpoint_checksum());
    }
    const std::string folder = CheckpointFolder("/checkpoints", "job", clock);
    const absl::Status status = WriteManifest(storage_, folder, manifest);
    EXPECT_TRUE(status.ok()) << status;
    return folder;
  }
};

TEST_P(RestoreTest, AnyNumberOfPartitionsGoesOnWithTheSameBits) {
  v1::OpenTablesRequest job = Request(GetParam().first);
  Open(job);
  TrainStep(job, 0);
  TrainStep(job, 1);
  const std::string folder = Checkpoint(job, 2);
  TrainStep(job, 2);
  const std::vector<float> expected = Values(job, 3);

  v1::OpenTablesRequest resumed = Request(GetParam().second);
  resumed.set_generation(2);
  resumed.set_restore_uri(folder);
  resumed.set_start_clock(2);
  Open(resumed);
  TrainStep(resumed, 2);
  EXPECT_EQ(Values(resumed, 3), expected);
}

// Under all-reduce, each rank has written one file, with rows as they came; the first number is the
// number of ranks.
TEST_P(RestoreTest, FilesOfRanksHaveRowsOfAnyPartition) {
  v1::OpenTablesRequest job = Request(GetParam().first);
  Open(job);
  TrainStep(job, 0);
  const std::string folder = Checkpoint(job, 1);
  const std::vector<float> expected = Values(job, 1);
  v1::CheckpointManifest manifest = *ReadManifest(storage_, folder);
  manifest.mutable_schema()->set_partitions(GetParam().second);
  manifest.set_rank_files(manifest.files_size());
  ASSERT_TRUE(DeleteManifest(storage_, folder).ok());
  ASSERT_EQ(WriteManifest(storage_, folder, manifest), absl::OkStatus());

  v1::OpenTablesRequest resumed = Request(GetParam().second);
  resumed.set_generation(2);
  resumed.set_restore_uri(folder);
  resumed.set_start_clock(1);
  Open(resumed);
  EXPECT_EQ(Values(resumed, 1), expected);
}

TEST_P(RestoreTest, WeightsAloneStartANewJob) {
  v1::OpenTablesRequest job = Request(GetParam().first);
  Open(job);
  TrainStep(job, 0);
  const std::string folder = Checkpoint(job, 1);
  const std::vector<float> weights = Values(job, 1);
  v1::OpenTablesRequest fresh = Request(GetParam().second);
  fresh.set_generation(2);
  fresh.mutable_schema()->mutable_optimizer()->set_name("adam");
  fresh.mutable_schema()->mutable_optimizer()->clear_momentum();
  fresh.set_restore_uri(folder);
  fresh.set_restore_weights_only(true);
  Open(fresh);
  EXPECT_EQ(Values(fresh, 0), weights);
}

TEST_P(RestoreTest, AveragesTakeTheWeightsPlace) {
  v1::OpenTablesRequest job = Request(GetParam().first);
  job.mutable_schema()->mutable_optimizer()->set_average_decay(0.75);
  Open(job);
  const std::vector<float> initial = Values(job, 0);
  TrainStep(job, 0);
  const std::string folder = Checkpoint(job, 1);
  const std::vector<float> weights = Values(job, 1);
  v1::OpenTablesRequest fresh = Request(GetParam().second);
  fresh.set_generation(2);
  fresh.set_restore_uri(folder);
  fresh.set_restore_weights_only(true);
  fresh.set_restore_averages(true);
  Open(fresh);
  const std::vector<float> restored = Values(fresh, 0);
  ASSERT_EQ(restored.size(), initial.size());
  // These are of dense weights; rows keep theirs.
  size_t averages = 0;
  for (size_t i = 0; i < restored.size(); ++i) {
    if (restored[i] == weights[i]) continue;
    EXPECT_EQ(restored[i], initial[i] + 0.25f * (weights[i] - initial[i])) << i;
    ++averages;
  }
  EXPECT_GT(averages, 0);
}

TEST_P(RestoreTest, WeightsOfAnotherTokenizerAreRefused) {
  v1::OpenTablesRequest job = Request(GetParam().first);
  job.mutable_schema()->mutable_tokenizer()->set_fingerprint(1);
  job.mutable_schema()->mutable_tokenizer()->set_name("a.json");
  Open(job);
  const std::string folder = Checkpoint(job, 0);
  v1::OpenTablesRequest other = Request(GetParam().second);
  other.mutable_schema()->mutable_tokenizer()->set_fingerprint(2);
  other.mutable_schema()->mutable_tokenizer()->set_name("b.tokens");
  other.set_generation(2);
  other.set_restore_uri(folder);
  other.set_restore_weights_only(true);
  const absl::Status refused = engine_->OpenTables(other).status();
  EXPECT_TRUE(absl::IsInvalidArgument(refused)) << refused;
  EXPECT_THAT(refused.message(), testing::HasSubstr("learned from tokens of a.json"));
  EXPECT_THAT(refused.message(), testing::HasSubstr("b.tokens"));
  // Where nothing is known, nothing is compared.
  other.mutable_schema()->clear_tokenizer();
  Open(other);
}

TEST_P(RestoreTest, ADurableRestoreDoesNotNeedItsCheckpointAgain) {
  v1::OpenTablesRequest job = Request(GetParam().first);
  Open(job);
  TrainStep(job, 0);
  const std::string folder = Checkpoint(job, 1);
  TrainStep(job, 1);
  const std::vector<float> expected = Values(job, 2);
  v1::OpenTablesRequest resumed = Request(GetParam().second);
  resumed.mutable_update()->set_durability(v1::UpdateSpec::EVERY_PUSH);
  resumed.set_generation(2);
  resumed.set_restore_uri(folder);
  resumed.set_start_clock(1);
  Open(resumed);
  files_.Crash(3);
  Start();
  ASSERT_TRUE(storage_.DeleteRecursively(folder).ok());
  Open(resumed);
  TrainStep(resumed, 1);
  EXPECT_EQ(Values(resumed, 2), expected);
}

TEST_P(RestoreTest, ADamagedCheckpointIsDataLoss) {
  v1::OpenTablesRequest job = Request(GetParam().first);
  Open(job);
  TrainStep(job, 0);
  const std::string folder = Checkpoint(job, 1);
  const std::string path = JoinUri(folder, ReadManifest(storage_, folder)->files(0).path());
  std::string bytes = *ReadFile(storage_, path);
  bytes.back() ^= 1;
  ASSERT_TRUE(ReplaceFile(storage_, path, bytes).ok());
  v1::OpenTablesRequest resumed = Request(GetParam().second);
  resumed.set_generation(2);
  resumed.set_restore_uri(folder);
  resumed.set_start_clock(1);
  EXPECT_TRUE(absl::IsDataLoss(engine_->OpenTables(resumed).status()));
}

INSTANTIATE_TEST_SUITE_P(Partitions, RestoreTest,
                         testing::Values(std::pair(1, 1), std::pair(3, 3), std::pair(1, 4),
                                         std::pair(4, 1), std::pair(3, 2)));

}  // namespace
}  // namespace muster
