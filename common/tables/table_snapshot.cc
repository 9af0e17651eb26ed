#include "common/tables/table_snapshot.h"

#include <algorithm>
#include <cstring>

#include "common/base/round_up.h"

namespace muster {
namespace {

// Rows whose memory is loaded ahead.
constexpr size_t kLoadedAhead = 16;
constexpr size_t kRowAlignment = alignof(SparseTable::Row);

}  // namespace

void TableSnapshot::Rows::Clear() {
  keys.clear();
  steps.clear();
  last_use.clear();
  values.clear();
}

void TableSnapshot::Rows::Append(uint64_t key, uint32_t row_steps, uint32_t row_last_use,
                                 const float* row_values) {
  keys.push_back(key);
  steps.push_back(row_steps);
  last_use.push_back(row_last_use);
  values.insert(values.end(), row_values, row_values + width);
}

StoredRows TableSnapshot::Rows::view() const {
  return {.keys = keys, .steps = steps, .last_use = last_use, .values = values, .width = width};
}

TableSnapshot::TableSnapshot(SparseTable& table)
    : table_(table),
      limit_(table.number_limit()),
      done_(limit_, false),
      row_bytes_(sizeof(SparseTable::Row) + table.width() * sizeof(float)),
      aside_bytes_(RoundUp(row_bytes_, kRowAlignment)) {
  table_.set_observer(this);
}

TableSnapshot::~TableSnapshot() { table_.set_observer(nullptr); }

const SparseTable::Row& TableSnapshot::Aside(uint32_t number) const {
  return *reinterpret_cast<const SparseTable::Row*>(Place(aside_index_.find(number)->second));
}

void TableSnapshot::BeforeChange(uint32_t number, const SparseTable::Row& row) {
  if (number >= limit_ || done_[number]) return;
  done_[number] = true;
  if (number >= collected_) uncollected_.push_back(number);
  const uint32_t place = static_cast<uint32_t>(aside_index_.size());
  aside_index_.emplace(number, place);
  if (place % kSlabRows == 0) {
    aside_.push_back(std::make_unique<std::byte[]>(kSlabRows * aside_bytes_));
  }
  std::memcpy(Place(place), &row, row_bytes_);
}

void TableSnapshot::Added(uint32_t number) {
  // The place was free at the moment, or what was there has been copied aside.
  if (number < limit_) done_[number] = true;
}

bool TableSnapshot::Collect(size_t most,
                            absl::FunctionRef<bool(uint32_t steps, uint32_t last_use)> wanted,
                            std::vector<Entry>& entries) {
  const auto collect = [&](uint32_t number, const SparseTable::Row& row) {
    const bool keep = wanted(row.steps, row.last_use);
    entries.push_back({.key = row.key, .number = number, .wanted = keep});
    if (!keep) done_[number] = true;
  };
  for (size_t i = 0; i < most; ++i) {
    const uint32_t number = table_.Next(collected_);
    if (number == SparseTable::kMissing || number >= limit_) {
      collected_ = limit_;
      for (const uint32_t aside : uncollected_) collect(aside, Aside(aside));
      uncollected_.clear();
      return true;
    }
    collected_ = number + 1;
    if (!done_[number]) collect(number, table_.At(number));
  }
  return false;
}

void TableSnapshot::Read(absl::Span<const Entry> entries, Rows& rows) {
  rows.width = width();
  for (size_t i = 0; i < entries.size(); ++i) {
    if (i + kLoadedAhead < entries.size() && entries[i + kLoadedAhead].wanted &&
        !done_[entries[i + kLoadedAhead].number]) {
      table_.Prefetch(entries[i + kLoadedAhead].number);
    }
    if (!entries[i].wanted) continue;
    const uint32_t number = entries[i].number;
    const SparseTable::Row& row = done_[number] ? Aside(number) : table_.At(number);
    done_[number] = true;
    rows.Append(row.key, row.steps, row.last_use, row.values());
  }
}

}  // namespace muster
