#include "common/plan/memory/rows_memory.h"

#include <algorithm>
#include <limits>

#include "common/base/buffer_pool.h"
#include "common/base/huge_memory.h"
#include "common/base/round_up.h"
#include "common/job/job_road.h"
#include "common/mesh/job_mesh.h"
#include "common/optim/optimizer.h"
#include "common/partition/schema.h"
#include "common/plan/size/distinct_rows.h"
#include "common/step/step_batches.h"
#include "common/tables/key_index.h"
#include "common/tables/row_memory.h"
#include "proto/job.pb.h"

namespace muster {
namespace {

// Messages that are large enough are put together in slabs of a huge page at least, for one size
// each, of which batches have two (common/base/buffer_pool.h). Rows lie in such slabs, too.
constexpr uint64_t kSlabBytes = HugeMemory::kPageBytes;
// Bytes that a table keeps beside a row's floats: the head, and the row's share of the index.
constexpr uint64_t kHeadBytes = sizeof(RowMemory::Row);
constexpr uint64_t kRowOverheadBytes = kHeadBytes + RowMemory::kIndexBytesPerRow;

uint64_t RowFloats(const v1::OptimizerSpec& spec, uint64_t dim) {
  const auto optimizer = CreateOptimizer(spec, Granularity::kRow);
  return dim + (optimizer.ok() ? (*optimizer)->state_floats(dim) : 0);
}

// Returns the examples that all workers together see before the job ends.
uint64_t ExamplesSeen(const v1::JobSpec& spec, const DataSize& data) {
  if (spec.stop().steps() > 0) {
    const uint64_t steps = std::min<uint64_t>(spec.stop().steps(), StepBatches::kEndless);
    if (spec.scale_batch()) {
      const StepBatches largest(static_cast<int64_t>(LargestScaledBatch(spec)));
      return largest.At(static_cast<int64_t>(steps)).begin;
    }
    return BatchesOf(spec).At(static_cast<int64_t>(steps)).begin;
  }
  return data.examples > 0 ? data.examples : uint64_t{1} << 40;
}

// Returns at most `count` times so many rows.
uint64_t Times(uint64_t count, uint64_t rows) {
  return rows > kMostRows / count ? kMostRows : count * rows;
}

}  // namespace

bool RowsOnServers(const v1::JobSpec& spec) {
  return !TrainsByAllReduce(spec) || spec.update().sparse() == v1::UpdateSpec::PARAMETER_SERVER;
}

RowsMemory::RowsMemory(const v1::JobSpec& spec, const DataSize& data, const ModelSize& model,
                       uint64_t examples, uint64_t evaluated)
    : spec_(spec),
      data_(data),
      model_(model),
      examples_(examples),
      evaluated_(evaluated),
      workers_(DividesAnew(spec) ? spec.min_workers() : std::max(1u, spec.workers())),
      shards_(SmallestShardGroup(spec)),
      row_bytes_(sizeof(float) * model.row_dim() + sizeof(uint64_t)),
      row_floats_(RowFloats(spec.optimizer(), model.row_dim())) {}

std::vector<MemoryPart> RowsMemory::OfWorker() const {
  std::vector<MemoryPart> parts;
  const uint64_t in_batch = DistinctRows(model_, data_, examples_);
  const uint64_t lookups = examples_ * model_.lookups;
  const uint64_t of_lookup = sizeof(int32_t) + 8;
  // By half again, as arrays grow with the largest batch so far.
  parts.push_back(
      {.name = "rows of a batch",
       .bytes = 3 * (in_batch * (2 * row_bytes_ + sizeof(uint64_t)) + lookups * of_lookup) / 2});
  parts.push_back(
      {.name = "rows of an evaluation",
       .bytes = DistinctRows(model_, data_, evaluated_) * (row_bytes_ + sizeof(uint64_t)) +
                evaluated_ * model_.lookups * of_lookup});
  if (spec_.verify_every() > 0) {
    // Keys and gradients, while other shares are computed.
    parts.push_back({.name = "rows of a batch that is verified", .bytes = in_batch * row_bytes_});
  }
  if (RowsOnServers(spec_)) {
    // Pulled and pushed ones in the memory shared with servers and where they are put together,
    // and the gradients of two earlier batches, held until they are sent.
    const uint64_t partitions = LayoutOptions(spec_.update()).partitions;
    const uint64_t moved = in_batch * row_bytes_;
    const bool in_slabs = moved >= partitions * BufferPool::kSmallestInSlab;
    parts.push_back({.name = "messages of rows",
                     .bytes = 5 * moved + std::max(moved, in_slabs ? 2 * kSlabBytes : 0)});
    return parts;
  }
  const uint64_t own =
      DistinctRows(model_, data_, CeilDivide(uint64_t{LargestBatch(spec_)}, workers_));
  if (!spec_.stop().evaluate_only()) {
    const uint64_t of_step = ZeroStage(spec_) == 0 ? RowsOfStep(own) : DividedRowsOfStep(own);
    parts.push_back({.name = "rows of a step", .bytes = of_step + of_step / 2});
  }
  parts.push_back({.name = "sparse tables", .bytes = KeptByWorker()});
  return parts;
}

uint64_t RowsMemory::KeptByWorker() const {
  return TableBytes(OwnedRows(DistinctRows(model_, data_, ExamplesSeen(spec_, data_))));
}

uint64_t RowsMemory::Copy() const {
  const uint64_t of_step = OwnedRows(DistinctRows(model_, data_, LargestScaledBatch(spec_)));
  // The sums as they are sent and received, and added up.
  return KeptByWorker() + 2 * of_step * row_bytes_ + SumBytes(of_step);
}

uint64_t RowsMemory::OnServers() const {
  const uint64_t row = sizeof(float) * row_floats_ + kRowOverheadBytes;
  const uint64_t all = DistinctRows(model_, data_, ExamplesSeen(spec_, data_)) * row;
  const uint64_t cache = spec_.sparse_tables().cache_bytes();
  // Beyond the cache, the rows that one step touches.
  const uint64_t of_step = DistinctRows(model_, data_, LargestScaledBatch(spec_)) * row;
  return cache == 0 ? all : std::min(all, cache + of_step);
}

// Returns the most rows that a rank owns of so many: those of its partitions.
uint64_t RowsMemory::OwnedRows(uint64_t rows) const {
  if (shards_ == 1) return rows;
  const uint64_t partitions = LayoutOptions(spec_.update()).partitions;
  return CeilDivide(rows, partitions) * CeilDivide(partitions, shards_);
}

// Returns the bytes of sums over so many rows, whose index is a quarter as large.
uint64_t RowsMemory::SumBytes(uint64_t rows) const { return (rows + rows / 4) * (row_bytes_ + 16); }

// Returns the bytes of this worker's `own` rows, summed, and of all workers', gathered and summed.
uint64_t RowsMemory::RowsOfStep(uint64_t own) const {
  // More workers have as many rows each only if the batch grows with them.
  const uint64_t workers = spec_.scale_batch() ? MostWorkers(spec_) : workers_;
  return SumBytes(own) + Times(workers, own) * (row_bytes_ + 16) +
         SumBytes(DistinctRows(model_, data_, LargestScaledBatch(spec_)));
}

// Returns the same where the ranks of a shard group divide rows (row_exchange.h in
// worker/strategy/group): sums of its own, of what it owns in its group and, with several groups,
// in all; two arrays of rows on their way, for look-ups, too; and keys with their positions.
uint64_t RowsMemory::DividedRowsOfStep(uint64_t own) const {
  const uint64_t replicas = workers_ / shards_;
  const uint64_t asked = std::max(own, DistinctRows(model_, data_, evaluated_));
  const uint64_t of_group =
      OwnedRows(DistinctRows(model_, data_, CeilDivide(uint64_t{LargestBatch(spec_)}, replicas)));
  uint64_t moved = std::max(asked, Times(shards_, OwnedRows(asked)));
  uint64_t sums = SumBytes(own) + SumBytes(of_group);
  if (replicas > 1) {
    moved = std::max(moved, Times(replicas, of_group));
    sums += SumBytes(OwnedRows(DistinctRows(model_, data_, LargestScaledBatch(spec_))));
  }
  return sums + 2 * moved * row_bytes_ + 2 * asked * (sizeof(uint64_t) + sizeof(uint32_t));
}

// Returns the bytes of records in slabs (common/tables/row_memory.h), and of the index of their
// keys (common/tables/key_index.h). The most there is at a time may have been when it grew, and its
// keys went over from one of half the size.
uint64_t RowsMemory::TableBytes(uint64_t rows) const {
  constexpr uint64_t kBucket = KeyIndex::kBucketBytes;
  const auto records = [this](uint64_t count) {
    const uint64_t bytes = count * (sizeof(float) * row_floats_ + kHeadBytes);
    // Only the touched part of the first counts.
    return bytes <= kSlabBytes ? bytes : RoundUp(bytes, kSlabBytes);
  };
  const uint64_t buckets = KeyIndex::BucketsOf(rows);
  return std::max(records(rows) + buckets * kBucket,
                  records(KeyIndex::MostKeys(buckets / 2)) + buckets * (kBucket + kBucket / 2));
}

}  // namespace muster
