#include "common/tables/sparse_table.h"

#include <algorithm>
#include <array>

#include "common/partition/initial_values.h"

namespace muster {
namespace {

// Keys whose memory is loaded ahead together: enough to hide the latency, few enough to stay in the
// first cache.
constexpr size_t kGroup = 32;
// Keys that are looked up before their rows are updated.
constexpr size_t kBatch = 1024;
// Rows that are loaded ahead of the one in hand: few, as their lines are about as many as a
// processor can wait for at a time. They are begun as many rows earlier, so many at a time.
constexpr size_t kRowsAhead = 4;
// Lines of the index that are loaded ahead of the key in hand.
constexpr size_t kKeysAhead = 24;

}  // namespace

SparseTable::SparseTable(const SparseTableSpec& spec, uint64_t seed, const Optimizer& optimizer)
    : spec_(spec),
      seed_(seed),
      optimizer_(optimizer),
      width_(spec.dim + optimizer.state_floats(spec.dim)),
      rows_(width_) {}

void SparseTable::ReadInitial(uint64_t key, absl::Span<float> out) const {
  InitialRow(spec_, seed_, key, out);
}

uint32_t SparseTable::AddUnfilled(uint64_t key) {
  const uint32_t number = rows_.Add(key);
  if (observer_ != nullptr) observer_->Added(number);
  return number;
}

void SparseTable::Erase(uint32_t number) {
  if (observer_ != nullptr) observer_->BeforeChange(number, At(number));
  rows_.Erase(number);
}

uint32_t SparseTable::Add(uint64_t key) {
  const uint32_t number = AddUnfilled(key);
  Row& row = rows_.At(number);
  ReadInitial(key, {row.values(), dim()});
  optimizer_.InitState({row.values(), dim()}, {row.values() + dim(), width_ - dim()});
  return number;
}

size_t SparseTable::Find(absl::Span<const uint64_t> keys, absl::Span<uint32_t> numbers) const {
  size_t missing = 0;
  for (size_t i = 0; i < std::min(kKeysAhead, keys.size()); ++i) rows_.PrefetchKey(keys[i]);
  for (size_t i = 0; i < keys.size(); ++i) {
    if (i + kKeysAhead < keys.size()) rows_.PrefetchKey(keys[i + kKeysAhead]);
    numbers[i] = rows_.Find(keys[i]);
    missing += numbers[i] == kMissing;
  }
  return missing;
}

void SparseTable::Pull(absl::Span<const uint64_t> keys, absl::Span<float> out) const {
  std::array<uint32_t, kGroup> numbers;
  float* to = out.data();
  for (size_t begin = 0; begin < keys.size(); begin += kGroup) {
    const absl::Span<const uint64_t> group = keys.subspan(begin, kGroup);
    for (uint64_t key : group) rows_.PrefetchKey(key);
    for (size_t i = 0; i < group.size(); ++i) {
      numbers[i] = rows_.Find(group[i]);
      if (numbers[i] != kMissing) rows_.PrefetchRow(numbers[i]);
    }
    for (size_t i = 0; i < group.size(); ++i, to += dim()) {
      if (numbers[i] == kMissing) {
        ReadInitial(group[i], {to, dim()});
      } else {
        std::copy_n(At(numbers[i]).values(), dim(), to);
      }
    }
  }
}

void SparseTable::Update(absl::Span<const uint64_t> keys, absl::Span<const float> gradients,
                         const OptimizerStep& step, Steps steps, uint32_t clock, uint64_t lsn) {
  std::array<uint32_t, kBatch> numbers;
  for (size_t begin = 0; begin < keys.size(); begin += kBatch) {
    const absl::Span<const uint64_t> batch = keys.subspan(begin, kBatch);
    const absl::Span<uint32_t> found = absl::MakeSpan(numbers).first(batch.size());
    if (Find(batch, found) > 0) {
      for (size_t i = 0; i < batch.size(); ++i) {
        if (found[i] == kMissing) found[i] = Add(batch[i]);
      }
    }
    UpdateRows(found, gradients.subspan(begin * dim(), batch.size() * dim()), step, steps, clock,
               lsn);
  }
}

template <typename GradientOf>
void SparseTable::UpdateEach(absl::Span<const uint32_t> numbers, GradientOf gradient_of,
                             const OptimizerStep& step, Steps steps, uint32_t clock, uint64_t lsn) {
  OptimizerStep row_step = step;
  const auto begin_rows = [this, numbers](size_t i) {
    if (i < numbers.size()) rows_.BeginRows(numbers.subspan(i, kRowsAhead));
  };
  begin_rows(0);
  begin_rows(kRowsAhead);
  for (size_t i = 0; i < numbers.size(); ++i) {
    if (i % kRowsAhead == 0) begin_rows(i + 2 * kRowsAhead);
    if (i + kRowsAhead < numbers.size() && numbers[i + kRowsAhead] != kMissing) {
      rows_.PrefetchRow(numbers[i + kRowsAhead]);
    }
    if (numbers[i] == kMissing) continue;
    Row& row = At(numbers[i]);
    if (lsn != 0 && row.lsn >= lsn) continue;
    if (observer_ != nullptr) observer_->BeforeChange(numbers[i], row);
    if (steps == Steps::kPerRow) row_step.step = row.steps + 1;
    optimizer_.Apply(row_step, {gradient_of(i), dim()}, {row.values(), dim()},
                     {row.values() + dim(), width_ - dim()});
    ++row.steps;
    row.last_use = std::max(row.last_use, clock);
    row.lsn = lsn;
    row.flags |= RowMemory::kReferenced | RowMemory::kChanged;
  }
}

void SparseTable::UpdateRows(absl::Span<const uint32_t> numbers, absl::Span<const float> gradients,
                             const OptimizerStep& step, Steps steps, uint32_t clock, uint64_t lsn) {
  UpdateEach(
      numbers, [this, gradients](size_t i) { return gradients.data() + i * dim(); }, step, steps,
      clock, lsn);
}

void SparseTable::UpdateRows(absl::Span<const uint32_t> numbers,
                             absl::Span<const float* const> gradients, const OptimizerStep& step,
                             Steps steps, uint32_t clock, uint64_t lsn) {
  UpdateEach(
      numbers, [gradients](size_t i) { return gradients[i]; }, step, steps, clock, lsn);
}

SparseTable::Row& SparseTable::Load(uint64_t key) {
  const uint32_t number = rows_.Find(key);
  if (number != kMissing && observer_ != nullptr) observer_->BeforeChange(number, At(number));
  Row& row = At(number == kMissing ? Add(key) : number);
  row.flags |= RowMemory::kChanged;
  return row;
}

std::vector<const SparseTable::Row*> SparseTable::Sorted() const {
  return Sorted([](uint64_t) { return true; });
}

std::vector<const SparseTable::Row*> SparseTable::Sorted(
    absl::FunctionRef<bool(uint64_t key)> wanted) const {
  std::vector<const Row*> sorted;
  for (uint32_t number = Next(0); number != kMissing; number = Next(number + 1)) {
    if (wanted(At(number).key)) sorted.push_back(&At(number));
  }
  std::sort(sorted.begin(), sorted.end(),
            [](const Row* a, const Row* b) { return a->key < b->key; });
  return sorted;
}

}  // namespace muster
