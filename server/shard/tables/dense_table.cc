#include "server/shard/tables/dense_table.h"

#include <cstdint>
#include <utility>
#include <vector>

#include "common/kernels/elementwise.h"
#include "common/partition/initial_values.h"
#include "common/partition/memory_bounds.h"
#include "common/tables/block_step.h"
#include "common/tables/squared_norm.h"
#include "common/trace/trace_scope.h"

namespace muster {
namespace {

// Returns the payload's elements if they lie in one span that can be read as f32; otherwise
// nothing.
absl::Span<const float> InOneSpan(const Payload& payload) {
  if (payload.spans().size() != 1) return {};
  const Payload::Span span = payload.spans()[0];
  if (reinterpret_cast<uintptr_t>(span.data()) % alignof(float) != 0) return {};
  return {reinterpret_cast<const float*>(span.data()), span.size() / sizeof(float)};
}

}  // namespace

DenseTable::DenseTable(std::shared_ptr<const JobTables> tables, uint32_t partition,
                       std::shared_ptr<BufferPool> pool)
    : tables_(std::move(tables)), pool_(std::move(pool)) {
  const Optimizer& optimizer = tables_->dense_optimizer();
  offsets_.push_back(0);
  for (uint32_t id : tables_->layout().partition_blocks(partition)) {
    const DenseLayout::Block& layout = tables_->layout().blocks()[id];
    Block block{.layout = &layout,
                .weights = VersionedBuffer(pool_, layout.elements()),
                .previous = nullptr,
                .state = VersionedBuffer(pool_, StateFloats(layout, optimizer))};
    absl::Span<float> rest = block.weights.Write();
    for (const DenseLayout::Piece& piece : layout.pieces) {
      InitialValues(tables_->tables().tensors[piece.tensor], tables_->seed(), piece.begin,
                    rest.subspan(0, piece.end - piece.begin));
      rest.remove_prefix(piece.end - piece.begin);
    }
    if (!layout.frozen) optimizer.InitState(block.weights.Write(), block.state_values());
    blocks_.push_back(std::move(block));
    offsets_.push_back(offsets_.back() + layout.elements());
  }
  sums_.resize(blocks_.size());
  ended_.resize(blocks_.size());
}

void DenseTable::GoOnWith(std::shared_ptr<const JobTables> tables) {
  Settle();
  tables_ = std::move(tables);
  for (Sum& sum : sums_) sum = Sum{};
  for (Block& block : blocks_) block.previous = nullptr;
  kept_bytes_ = 0;
}

uint64_t DenseTable::value_bytes() const {
  uint64_t floats = offsets_.back();
  for (const Block& block : blocks_) floats += block.state.size();
  return floats * sizeof(float);
}

uint64_t DenseTable::MemoryOf(uint32_t block, const Sum& sum) const {
  uint64_t bytes = sum.unfinished.size() * blocks_[block].weights.size() * sizeof(float);
  if (sum.values != nullptr) return bytes + blocks_[block].weights.size() * sizeof(float);
  for (const Contribution& contribution : sum.kept) bytes += contribution.scarce_bytes;
  return bytes;
}

uint64_t DenseTable::memory_bytes() const {
  uint64_t bytes = value_bytes();
  for (uint32_t i = 0; i < size(); ++i) bytes += MemoryOf(i, sums_[i]) + MemoryOf(i, ended_[i]);
  return bytes;
}

Payload DenseTable::Pull(uint32_t first, uint32_t count, Version version) {
  auto versions = std::make_shared<std::vector<std::shared_ptr<const float>>>();
  std::vector<Payload::Span> spans;
  for (uint32_t i = first; i < first + count; ++i) {
    if (version == Version::kCurrent) Settle(i);
    versions->push_back(version == Version::kPrevious ? blocks_[i].previous
                                                      : blocks_[i].weights.Read());
    spans.emplace_back(reinterpret_cast<const std::byte*>(versions->back().get()),
                       blocks_[i].weights.size() * sizeof(float));
  }
  return Payload(std::move(spans), std::move(versions));
}

bool DenseTable::HasRoomFor(uint32_t block, const Payload& gradient, Keeping keeping) const {
  if (keeping == Keeping::kImpossible) return false;
  return tables_->pushers(layout(block)) == 1 ||
         kept_bytes_ + gradient.size() <= kKeptGradientBytes;
}

void DenseTable::Add(uint32_t block, const Payload& gradient, Keeping keeping) {
  Sum& sum = sums_[block];
  const size_t size = blocks_[block].weights.size();
  if (sum.values != nullptr) return gradient.AddTo({sum.values.get(), size});
  if (!InOneSpan(gradient).empty()) {
    if (keeping == Keeping::kFree) {
      sum.kept.push_back({gradient});
      return;
    }
    if (sum.kept.empty() && HasRoomFor(block, gradient, keeping)) {
      sum.kept.push_back({gradient, gradient.size()});
      kept_bytes_ += gradient.size();
      return;
    }
  }
  for (const Contribution& contribution : sum.kept) kept_bytes_ -= contribution.scarce_bytes;
  sum.kept.push_back({gradient});
  AddKept(block, sum);
}

void DenseTable::AddKept(uint32_t block, Sum& sum) {
  if (sum.kept.empty()) return;
  const size_t size = blocks_[block].weights.size();
  const std::vector<Contribution> kept = std::exchange(sum.kept, {});
  sum.values = pool_->Take(size);
  float* const values = sum.values.get();
  const Payload& first = kept[0].gradient;
  size_t added = 1;
  // Bound by memory: one pass over two gradients, rather than two over the sum.
  if (kept.size() > 1 && !InOneSpan(first).empty() && !InOneSpan(kept[1].gradient).empty()) {
    AddArrays(static_cast<int64_t>(size), InOneSpan(first).data(),
              InOneSpan(kept[1].gradient).data(), values);
    added = 2;
  } else {
    first.CopyTo(values);
  }
  for (; added < kept.size(); ++added) kept[added].gradient.AddTo({values, size});
}

absl::Span<const float> DenseTable::Values(uint32_t block, Sum& sum) {
  if (sum.kept.size() == 1) return InOneSpan(sum.kept[0].gradient);
  AddKept(block, sum);
  if (sum.values == nullptr) return {};
  return {sum.values.get(), blocks_[block].weights.size()};
}

void DenseTable::Accumulate(uint32_t block, uint32_t pusher, Payload gradient, Keeping keeping) {
  if (tables_->order() == SummationOrder::kArrival) {
    Add(block, gradient, keeping);
    return;
  }
  if (tables_->pushes_of_block() > 1) {
    const absl::optional<Payload> all = AddMicroBatch(block, pusher, gradient);
    if (all.has_value()) AddInTurn(block, pusher, *all, Keeping::kScarce);
    return;
  }
  AddInTurn(block, pusher, std::move(gradient), keeping);
}

absl::optional<Payload> DenseTable::AddMicroBatch(uint32_t block, uint32_t pusher,
                                                  const Payload& gradient) {
  const size_t size = blocks_[block].weights.size();
  Sum::Unfinished& sum = sums_[block].unfinished[pusher];
  if (sum.values == nullptr) {
    sum.values = pool_->Take(size);
    gradient.CopyTo(sum.values.get());
  } else {
    gradient.AddTo({sum.values.get(), size});
  }
  if (++sum.micro_batches < tables_->pushes_of_block()) return absl::nullopt;
  const std::shared_ptr<float> values = std::move(sum.values);
  sums_[block].unfinished.erase(pusher);
  const Payload::Span span(reinterpret_cast<const std::byte*>(values.get()), size * sizeof(float));
  return Payload({span}, values);
}

void DenseTable::AddInTurn(uint32_t block, uint32_t pusher, Payload gradient, Keeping keeping) {
  Sum& sum = sums_[block];
  if (pusher != sum.next_rank) {
    if (keeping == Keeping::kFree) {
      sum.early.emplace(pusher, Contribution{std::move(gradient), 0, keeping});
    } else if (HasRoomFor(block, gradient, keeping)) {
      kept_bytes_ += gradient.size();
      sum.early.emplace(pusher, Contribution{gradient, gradient.size(), keeping});
    } else {
      const std::shared_ptr<float> copy = pool_->Take(blocks_[block].weights.size());
      gradient.CopyTo(copy.get());
      const Payload::Span span(reinterpret_cast<const std::byte*>(copy.get()), gradient.size());
      sum.early.emplace(pusher, Contribution{Payload({span}, copy), 0, Keeping::kScarce});
    }
    return;
  }
  Add(block, gradient, keeping);
  ++sum.next_rank;
  AddEarly(block, Turn::kOwn);
}

void DenseTable::AddEarly(uint32_t block, Turn turn) {
  Sum& sum = sums_[block];
  while (!sum.early.empty() && (turn == Turn::kAny || sum.early.begin()->first == sum.next_rank)) {
    const Contribution early = std::move(sum.early.begin()->second);
    sum.early.erase(sum.early.begin());
    kept_bytes_ -= early.scarce_bytes;
    Add(block, early.gradient, early.keeping);
    ++sum.next_rank;
  }
}

void DenseTable::FinishSums() {
  for (uint32_t i = 0; i < size(); ++i) AddEarly(i, Turn::kAny);
}

double DenseTable::SquaredNormOfSum(uint32_t block) {
  if (!blocks_[block].layout->in_norm()) return 0;
  return SquaredNorm(Values(block, sums_[block]), tables_->layout().cells(*blocks_[block].layout));
}

void DenseTable::BeginClock() {
  for (uint32_t i = 0; i < size(); ++i) {
    // Holding the current version makes the optimizer go on with a copy.
    if (tables_->keeps_previous()) {
      blocks_[i].previous = blocks_[i].weights.Read();
    }
    sums_[i] = Sum{};
  }
  kept_bytes_ = 0;
}

void DenseTable::ApplySums(const OptimizerStep& step,
                           std::vector<absl::optional<float>> gradient_scales, uint64_t lsn) {
  Settle();
  step_ = step;
  step_scales_ = std::move(gradient_scales);
  step_lsn_ = lsn;
  sums_.swap(ended_);
  for (uint32_t i = 0; i < size(); ++i) {
    if (!step_scales_[i].has_value()) ended_[i] = Sum{};
    unsettled_ += ended_[i].empty() ? 0 : 1;
  }
  BeginClock();
}

void DenseTable::Settle() {
  for (uint32_t i = 0; i < size() && !settled(); ++i) Settle(i);
}

void DenseTable::Settle(uint32_t block) {
  if (ended_[block].empty()) return;
  OptimizerStep step = step_;
  step.gradient_scale = *step_scales_[block];
  if (tables_->own_steps()) step.step = blocks_[block].steps + 1;
  const TraceScope trace(ActionKind::kOptimizer, step.step - 1, blocks_[block].weights.size());
  Apply(blocks_[block], step, Values(block, ended_[block]), step_lsn_);
  ended_[block] = Sum{};
  --unsettled_;
}

void DenseTable::Update(uint32_t block, const Payload& gradient, const OptimizerStep& step,
                        uint64_t lsn) {
  OptimizerStep block_step = step;
  block_step.step = blocks_[block].steps + 1;
  std::shared_ptr<float> copy;
  absl::Span<const float> values = InOneSpan(gradient);
  if (values.empty()) {
    copy = pool_->Take(blocks_[block].weights.size());
    gradient.CopyTo(copy.get());
    values = {copy.get(), blocks_[block].weights.size()};
  }
  Apply(blocks_[block], block_step, values, lsn);
}

void DenseTable::Apply(Block& block, const OptimizerStep& step, absl::Span<const float> gradient,
                       uint64_t lsn) {
  if (lsn != 0 && block.lsn >= lsn) return;
  StepBlock(*block.layout, tables_->dense_optimizer(), step, gradient, block.weights.Write(),
            block.state_values());
  ++block.steps;
  block.lsn = lsn;
}

}  // namespace muster
