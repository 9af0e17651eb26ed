#include "server/shard/history/history_workload.h"

#include <algorithm>

#include "common/partition/layout_from_schema_for_testing.h"
#include "common/partition/schema.h"
#include "common/partition/sparse_placement.h"
#include "server/shard/calls/test_exchange.h"

namespace muster {
namespace {

constexpr uint64_t kElements = 40;
constexpr uint64_t kKeys = 24;
constexpr uint32_t kDim = 2;
// Examples of one clock over all slots under BSP: a power of two, so that their mean is exact.
constexpr uint64_t kExamples = 4;

v1::OpenTablesRequest BaseRequest(const HistoryWorkload::Options& options) {
  v1::OpenTablesRequest request = TestOpenRequest(options.slots);
  v1::TablesSchema& schema = *request.mutable_schema();
  schema.mutable_tensors(0)->set_shape(0, kElements);
  schema.mutable_tensors(0)->mutable_initializer()->set_value(0);
  schema.mutable_sparse(0)->mutable_initializer()->set_value(0);
  schema.set_partitions(options.partitions);
  const bool synchronous = options.bound == uint64_t{0};
  // Under BSP it meets 1 / kExamples; otherwise it is divided by the slots.
  schema.mutable_optimizer()->set_learning_rate(synchronous ? kExamples : options.slots);
  v1::UpdateSpec& update = *request.mutable_update();
  update.set_staleness_bound(options.bound.value_or(0));
  update.set_unlimited_staleness(!options.bound.has_value());
  update.set_deterministic(options.deterministic);
  request.set_pushed_micro_batches(options.micro_batches);
  *schema.mutable_sparse_options() = options.rows;
  update.set_durability(options.durable ? v1::UpdateSpec::EVERY_PUSH : v1::UpdateSpec::CHECKPOINT);
  return request;
}

}  // namespace

HistoryWorkload::HistoryWorkload(Options options)
    : options_(options),
      random_(1, "history", "gradients"),
      open_(BaseRequest(options)),
      layout_(LayoutFromSchema(open_.schema())),
      elements_(options.partitions),
      keys_(options.partitions) {
  for (const DenseLayout::Block& block : layout_.blocks()) {
    for (uint64_t i = block.begin; i < block.end; ++i) elements_[block.partition].push_back(i);
  }
  for (uint64_t key = 0; key < kKeys; ++key) {
    keys_[SparsePartition(key, options.partitions)].push_back(key);
  }
}

v1::OpenTablesRequest HistoryWorkload::OpenRequest(uint64_t generation,
                                                   const std::vector<uint32_t>& partitions) const {
  v1::OpenTablesRequest request = open_;
  request.set_generation(generation);
  request.clear_partitions();
  for (uint32_t partition : partitions) request.add_partitions()->set_partition(partition);
  return request;
}

float HistoryWorkload::Gradient(uint32_t slot, uint64_t clock, uint64_t element) const {
  const uint64_t high = uint64_t{slot} << 32 | clock;
  return options_.inexact ? random_.Normal(element, high) : 1 + random_.Below(9, element, high);
}

float HistoryWorkload::GradientOf(uint32_t micro_batch, uint32_t slot, uint64_t clock,
                                  uint64_t element) const {
  if (options_.micro_batches <= 1) return Gradient(slot, clock, element);
  if (options_.inexact) {
    return random_.Normal(element, uint64_t{slot} << 32 | clock | uint64_t{micro_batch} << 56);
  }
  // Each micro-batch has one, and the last one has the rest.
  const uint32_t before = options_.micro_batches - 1;
  return micro_batch < before ? 1 : Gradient(slot, clock, element) - static_cast<float>(before);
}

bool HistoryWorkload::Touches(uint32_t slot, uint64_t clock, uint64_t key) const {
  // Where clocks without a push count, more of them.
  const uint64_t one_in = options_.rows.expire_after_clocks() > 0 ? 4 : 2;
  return random_.Below(one_in, key, uint64_t{slot} << 32 | clock | uint64_t{1} << 63) == 0;
}

bool HistoryWorkload::Idle(uint32_t slot, uint64_t clock, uint32_t partition) const {
  return random_.Below(4, partition, uint64_t{slot} << 32 | clock | uint64_t{1} << 62) == 0;
}

bool HistoryWorkload::Overflows(uint32_t slot, uint64_t clock) const {
  return options_.overflows && random_.Below(8, slot, clock | uint64_t{1} << 61) == 0;
}

v1::GroupLossScale HistoryWorkload::LossScaleAfter(uint64_t clocks) const {
  v1::GroupLossScale scale;
  for (uint32_t slot = 0; slot < options_.slots; ++slot) {
    if (Overflows(slot, clocks - 1)) scale.set_left_out(true);
  }
  // Each clock's has a value of its own.
  scale.mutable_value()->set_scale(scale.left_out() ? 0.5f : 2);
  scale.mutable_value()->set_steps(clocks);
  return scale;
}

uint64_t HistoryWorkload::Examples(uint32_t slot) const {
  if (options_.bound != uint64_t{0}) return 1;
  const uint64_t share = kExamples / options_.slots;
  return slot == 0 ? kExamples - share * (options_.slots - 1) : share;
}

v1::ExchangeRequest HistoryWorkload::Request(uint32_t slot, uint64_t clock,
                                             uint32_t partition) const {
  v1::ExchangeRequest request = TestRequest(slot, clock);
  request.set_partition(partition);
  return request;
}

std::vector<HistoryWorkload::Message> HistoryWorkload::Pulls(uint32_t slot, uint64_t clock,
                                                             uint32_t partition) const {
  std::vector<Message> messages;
  v1::ExchangeRequest dense = Request(slot, clock, partition);
  dense.mutable_dense_pull()->set_blocks(layout_.partition_blocks(partition).size());
  messages.emplace_back(dense, Payload());
  v1::ExchangeRequest sparse = Request(slot, clock, partition);
  sparse.mutable_sparse_pull()->set_table(1);
  sparse.mutable_sparse_pull()->set_rows(keys_[partition].size());
  messages.emplace_back(sparse, KeysAndRows(keys_[partition], {}));
  return messages;
}

void HistoryWorkload::AppendDense(uint32_t slot, uint64_t clock, uint32_t partition,
                                  uint32_t micro_batch, uint64_t random,
                                  std::vector<Message>& messages) const {
  const absl::Span<const uint32_t> blocks = layout_.partition_blocks(partition);
  for (uint32_t first = 0; first < blocks.size();) {
    const uint32_t count = std::min<uint32_t>(1 + random % 3, blocks.size() - first);
    random /= 3;
    v1::ExchangeRequest push = Request(slot, clock, partition);
    push.mutable_dense_push()->set_first_block(first);
    push.mutable_dense_push()->set_blocks(count);
    push.mutable_dense_push()->set_micro_batch(micro_batch);
    // The last micro-batch has all of them.
    const bool last = micro_batch + 1 >= options_.micro_batches;
    push.mutable_dense_push()->set_examples(last ? Examples(slot) : 0);
    std::vector<float> values;
    for (uint32_t i = first; i < first + count; ++i) {
      const DenseLayout::Block& block = layout_.blocks()[blocks[i]];
      for (uint64_t e = block.begin; e < block.end; ++e) {
        values.push_back(GradientOf(micro_batch, slot, clock, e));
      }
    }
    messages.emplace_back(push, Floats(std::move(values)));
    first += count;
  }
}

std::vector<HistoryWorkload::Message> HistoryWorkload::Contribution(uint32_t slot, uint64_t clock,
                                                                    uint32_t partition,
                                                                    uint64_t random) const {
  std::vector<Message> messages;
  v1::ExchangeRequest close = Request(slot, clock, partition);
  close.mutable_close()->set_examples(Examples(slot));
  if (options_.overflows) {
    v1::ClosingLossScale& word = *close.mutable_close()->mutable_loss_scale();
    word.set_overflowed(Overflows(slot, clock));
    for (v1::LossScale* value : {word.mutable_if_finite(), word.mutable_if_overflowed()}) {
      value->set_scale(value == &word.if_finite() ? 2 : 0.5f);
      value->set_steps(clock + 1);
    }
  }
  if (Idle(slot, clock, partition)) {
    close.mutable_close()->set_no_dense(true);
    messages.emplace_back(close, Payload());
    return messages;
  }
  for (uint32_t m = 0; m < std::max(1u, options_.micro_batches); ++m) {
    AppendDense(slot, clock, partition, m, random >> m, messages);
  }
  // Two chunks, of even and odd keys; an empty one is left out.
  uint32_t chunks = 0;
  for (uint64_t parity : {0, 1}) {
    std::vector<uint64_t> keys;
    std::vector<float> rows;
    for (uint64_t key : keys_[partition]) {
      if (key % 2 != parity || !Touches(slot, clock, key)) continue;
      keys.push_back(key);
      for (uint32_t d = 0; d < kDim; ++d) {
        rows.push_back(Gradient(slot, clock, kElements + key * kDim + d));
      }
    }
    if (keys.empty()) continue;
    v1::ExchangeRequest push = Request(slot, clock, partition);
    push.mutable_sparse_push()->set_table(1);
    push.mutable_sparse_push()->set_chunk(chunks++);
    push.mutable_sparse_push()->set_rows(keys.size());
    push.mutable_sparse_push()->set_examples(Examples(slot));
    messages.emplace_back(push, KeysAndRows(keys, rows));
  }
  close.mutable_close()->add_sparse_chunks(chunks);
  messages.emplace_back(close, Payload());
  return messages;
}

HistoryWorkload::Values HistoryWorkload::RowAfter(uint32_t partition, uint64_t key,
                                                  uint64_t clocks) const {
  const v1::SparseTableOptions& rows = options_.rows;
  Values sums(kDim);
  uint64_t pushed = 0, last = 0, updates = 0;
  // Whether it has been gone since before the clock.
  const auto expire = [&](uint64_t clock) {
    if (pushed == 0 || rows.expire_after_clocks() == 0) return;
    if (clock - last <= rows.expire_after_clocks()) return;
    if (rows.keep_from_updates() > 0 && updates >= rows.keep_from_updates()) return;
    sums.assign(kDim, 0);
    pushed = updates = 0;
  };
  for (uint64_t clock = 0; clock < clocks; ++clock) {
    bool touched = false;
    for (uint32_t slot = 0; slot < options_.slots; ++slot) {
      touched |= Counts(slot, clock, partition) && Touches(slot, clock, key);
    }
    if (!touched) continue;
    expire(clock);
    last = clock;
    if (++pushed < rows.admit_after()) continue;
    ++updates;
    for (uint32_t slot = 0; slot < options_.slots; ++slot) {
      if (!Counts(slot, clock, partition) || !Touches(slot, clock, key)) continue;
      for (uint32_t d = 0; d < kDim; ++d) {
        sums[d] -= Gradient(slot, clock, kElements + key * kDim + d);
      }
    }
  }
  expire(clocks);
  return sums;
}

HistoryWorkload::Values HistoryWorkload::After(uint32_t partition,
                                               const std::vector<uint64_t>& clocks) const {
  Values values;
  for (uint64_t element : elements_[partition]) {
    float sum = 0;
    for (uint32_t slot = 0; slot < options_.slots; ++slot) {
      for (uint64_t clock = 0; clock < clocks[slot]; ++clock) {
        if (Counts(slot, clock, partition)) sum += Gradient(slot, clock, element);
      }
    }
    values.push_back(-sum);
  }
  const bool selects = options_.rows.admit_after() > 1 || options_.rows.expire_after_clocks() > 0;
  for (uint64_t key : keys_[partition]) {
    if (selects) {
      const Values row = RowAfter(partition, key, clocks[0]);
      values.insert(values.end(), row.begin(), row.end());
      continue;
    }
    for (uint32_t d = 0; d < kDim; ++d) {
      float sum = 0;
      for (uint32_t slot = 0; slot < options_.slots; ++slot) {
        for (uint64_t clock = 0; clock < clocks[slot]; ++clock) {
          if (!Counts(slot, clock, partition) || !Touches(slot, clock, key)) continue;
          sum += Gradient(slot, clock, kElements + key * kDim + d);
        }
      }
      values.push_back(-sum);
    }
  }
  return values;
}

}  // namespace muster
