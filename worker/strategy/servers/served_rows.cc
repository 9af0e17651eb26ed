#include "worker/strategy/servers/served_rows.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/payload.h"
#include "common/base/philox.h"
#include "common/base/status_macros.h"
#include "common/partition/wire_dtype.h"
#include "proto/parameter_service.pb.h"
#include "worker/strategy/blocked_time.h"

namespace muster {
namespace {

// Memory kept for pushes of rows to come.
constexpr size_t kMemoryKept = size_t{64} << 20;

constexpr uint64_t kNoClock = std::numeric_limits<uint64_t>::max();

v1::UpdateSpec::WireType TypeOf(DType type) {
  return static_cast<v1::UpdateSpec::WireType>(WireTypeOf(type));
}

// Returns the number of a push's draw of random bits: no two pushes of a key in a job share it.
uint64_t DrawOf(uint32_t slot, uint64_t clock) { return uint64_t{slot} << 40 | clock; }

}  // namespace

ServedRows::ServedRows(const Parts& parts, const Options& options)
    : parts_(parts),
      options_(options),
      pulls_(parts.tables.size()),
      memory_(BufferPool::Create(kMemoryKept)),
      chunks_(parts.partitions, std::vector<uint32_t>(parts.tables.size())) {
  for (const SparseTableSpec& table : parts.tables) {
    sums_.emplace_back(table.dim);
    coding_.push_back({options.wire, Philox(options.seed, "wire", table.name), 0});
  }
}

void ServedRows::BeginStep(uint64_t clock) {
  clock_ = clock;
  slowest_ = kNoClock;
  for (RowSum& sum : sums_) sum.Clear();
  for (std::vector<uint32_t>& counts : chunks_) std::fill(counts.begin(), counts.end(), 0);
}

int64_t ServedRows::RowsPerMessage(size_t table) const {
  const uint64_t row_bytes = sizeof(uint64_t) + parts_.tables[table].dim * SizeOf(options_.wire);
  return static_cast<int64_t>(std::max<uint64_t>(1, options_.message_bytes / row_bytes));
}

void ServedRows::AskFor(absl::Span<const SparseRows> tables) {
  for (size_t table = 0; table < parts_.tables.size(); ++table) {
    const std::vector<uint64_t>& keys = tables[table].keys;
    pulls_[table].clear();
    for (RowGroup& group : GroupRows(keys, parts_.partitions, RowsPerMessage(table))) {
      v1::ExchangeRequest request;
      request.set_clock(clock_);
      request.mutable_sparse_pull()->set_table(table + 1);
      request.mutable_sparse_pull()->set_rows(group.positions.size());
      request.mutable_sparse_pull()->set_type(TypeOf(options_.wire));
      Payload payload = GatherKeys(group, keys);
      parts_.counters.bytes_pushed += payload.size();
      parts_.counters.other_bytes_sent += payload.size();
      ShardRouter::Handle operation = parts_.router.Send(
          group.partition, std::move(request), std::move(payload), ShardRouter::Order::kFree);
      pulls_[table].push_back({std::move(group), std::move(operation)});
    }
  }
}

absl::Status ServedRows::LookUp(absl::Span<SparseRows> tables) {
  for (size_t table = 0; table < parts_.tables.size(); ++table) {
    const uint32_t dim = parts_.tables[table].dim;
    SparseRows& rows = tables[table];
    rows.rows.resize(rows.keys.size() * dim);
    for (Pull& pull : pulls_[table]) {
      // Goes with its payload, whose memory may be the server's to send the next from.
      const ShardRouter::Handle operation = std::move(pull.operation);
      {
        const BlockedTime blocked(parts_.clock, parts_.counters.exposed_seconds);
        MUSTER_RETURN_IF_ERROR(parts_.router.Wait(operation));
      }
      const ExchangeResult& result = operation->result();
      const uint64_t due = pull.group.positions.size() * dim * SizeOf(options_.wire);
      // A reply of the wrong length is the server's bug, but must not become a wild copy here.
      if (result.payload.size() != due) {
        return absl::InternalError(absl::StrCat(
            "the answer to a sparse pull at clock ", clock_, " on partition ", pull.group.partition,
            " has ", result.payload.size(), " bytes where ", due, " are due"));
      }
      ScatterRows(pull.group, result.payload, options_.wire, dim, absl::MakeSpan(rows.rows));
      slowest_ = std::min<uint64_t>(slowest_, result.reply->slowest_clock());
      parts_.counters.bytes_pulled += result.payload.size();
      parts_.counters.other_bytes_received += result.payload.size();
    }
    pulls_[table].clear();
  }
  return absl::OkStatus();
}

void ServedRows::Push(absl::Span<SparseRows> tables, SeriesPosition position, uint64_t examples) {
  for (size_t table = 0; table < parts_.tables.size(); ++table) {
    SparseRows& rows = tables[table];
    RowSum& sum = sums_[table];
    const bool alone = position == SeriesPosition::kLast && sum.keys().empty();
    if (!alone) sum.Add(rows.keys, rows.gradients);
    if (position == SeriesPosition::kMoreFollow) continue;
    // The rows of a step's only micro-batch need no sum.
    if (!alone) sum.TakeSums(rows.gradients);
    PushTable(table, alone ? rows.keys : sum.keys(), rows.gradients, examples);
  }
}

void ServedRows::Hold(absl::Span<const SparseRows> tables) {
  for (size_t table = 0; table < parts_.tables.size(); ++table) {
    sums_[table].Add(tables[table].keys, tables[table].gradients);
  }
}

void ServedRows::PushHeld(uint64_t examples) {
  for (size_t table = 0; table < parts_.tables.size(); ++table) {
    std::vector<float> gradients;
    sums_[table].TakeSums(gradients);
    PushTable(table, sums_[table].keys(), gradients, examples);
  }
}

void ServedRows::PushTable(size_t table, absl::Span<const uint64_t> keys,
                           std::vector<float>& gradients, uint64_t examples) {
  RowCoding& coding = coding_[table];
  coding.draw = DrawOf(options_.slot, clock_);
  const std::shared_ptr<const std::vector<float>> held = arrays_.Hold(gradients);
  const PushedRows pushed = {keys, *held, parts_.tables[table].dim, held};
  for (const RowGroup& group : GroupRows(keys, parts_.partitions, RowsPerMessage(table))) {
    v1::ExchangeRequest request;
    request.set_clock(clock_);
    v1::SparsePush& push = *request.mutable_sparse_push();
    push.set_type(TypeOf(options_.wire));
    push.set_table(table + 1);
    push.set_chunk(group.chunk);
    push.set_rows(group.positions.size());
    push.set_examples(examples);
    Payload payload = GatherRows(group, pushed, coding, *memory_);
    parts_.counters.bytes_pushed += payload.size();
    parts_.counters.other_bytes_sent += payload.size();
    parts_.router.Send(group.partition, std::move(request), std::move(payload),
                       ShardRouter::Order::kLane);
    ++chunks_[group.partition][table];
  }
}

}  // namespace muster
