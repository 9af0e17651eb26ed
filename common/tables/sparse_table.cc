#include "common/tables/sparse_table.h"

#include <algorithm>
#include <array>

#include "common/partition/initial_values.h"

namespace muster {
namespace {

// Keys whose memory is loaded ahead together: enough to hide the latency, few enough to stay in the
// first cache.
constexpr size_t kGroup = 32;
constexpr size_t kLine = 64;

void PrefetchRecord(const void* record, size_t bytes) {
  const char* at = static_cast<const char*>(record);
  for (size_t offset = 0; offset < bytes; offset += kLine) __builtin_prefetch(at + offset);
}

}  // namespace

SparseTable::SparseTable(const SparseTableSpec& spec, uint64_t seed, const Optimizer& optimizer)
    : spec_(spec),
      seed_(seed),
      optimizer_(optimizer),
      width_(spec.dim + optimizer.slot_floats(spec.dim)),
      stride_((sizeof(Row) + width_ * sizeof(float) + 7) / 8 * 8) {}

uint32_t SparseTable::FindOrAdd(uint64_t key) {
  const size_t before = index_.size();
  const uint32_t number = index_.FindOrAdd(key);
  if (number < before) return number;
  if (number / kSlabRows == slabs_.size()) {
    slabs_.push_back(std::make_unique<std::byte[]>(kSlabRows * stride_));
  }
  Row& row = At(number);
  row = {.key = key, .lsn = 0, .steps = 0, .last_use = 0};
  InitialRow(spec_, seed_, key, {row.values(), spec_.dim});
  optimizer_.InitSlots(spec_.dim, {row.values() + spec_.dim, width_ - spec_.dim});
  return number;
}

void SparseTable::Pull(absl::Span<const uint64_t> keys, absl::Span<float> out) const {
  std::array<uint32_t, kGroup> numbers;
  float* to = out.data();
  for (size_t begin = 0; begin < keys.size(); begin += kGroup) {
    const absl::Span<const uint64_t> group = keys.subspan(begin, kGroup);
    for (uint64_t key : group) index_.Prefetch(key);
    for (size_t i = 0; i < group.size(); ++i) {
      numbers[i] = index_.Find(group[i]);
      if (numbers[i] == KeyIndex::kMissing) continue;
      PrefetchRecord(&At(numbers[i]), sizeof(Row) + dim() * sizeof(float));
    }
    for (size_t i = 0; i < group.size(); ++i, to += dim()) {
      if (numbers[i] == KeyIndex::kMissing) {
        InitialRow(spec_, seed_, group[i], {to, dim()});
      } else {
        std::copy_n(At(numbers[i]).values(), dim(), to);
      }
    }
  }
}

void SparseTable::Update(absl::Span<const uint64_t> keys, absl::Span<const float> gradients,
                         const OptimizerStep& step, Steps steps, uint32_t clock, uint64_t lsn) {
  std::array<uint32_t, kGroup> numbers;
  OptimizerStep row_step = step;
  for (size_t begin = 0; begin < keys.size(); begin += kGroup) {
    const absl::Span<const uint64_t> group = keys.subspan(begin, kGroup);
    for (uint64_t key : group) index_.Prefetch(key);
    for (size_t i = 0; i < group.size(); ++i) {
      numbers[i] = FindOrAdd(group[i]);
      PrefetchRecord(&At(numbers[i]), stride_);
    }
    for (size_t i = 0; i < group.size(); ++i) {
      Row& row = At(numbers[i]);
      if (lsn != 0 && row.lsn >= lsn) continue;
      if (steps == Steps::kPerRow) row_step.step = row.steps + 1;
      optimizer_.Apply(row_step, gradients.subspan((begin + i) * dim(), dim()),
                       {row.values(), dim()}, {row.values() + dim(), width_ - dim()});
      ++row.steps;
      row.last_use = clock;
      row.lsn = lsn;
    }
  }
}

SparseTable::Row& SparseTable::Load(uint64_t key) { return At(FindOrAdd(key)); }

std::vector<const SparseTable::Row*> SparseTable::Sorted() const {
  std::vector<const Row*> sorted(rows());
  for (uint32_t i = 0; i < sorted.size(); ++i) sorted[i] = &At(i);
  std::sort(sorted.begin(), sorted.end(),
            [](const Row* a, const Row* b) { return a->key < b->key; });
  return sorted;
}

}  // namespace muster
