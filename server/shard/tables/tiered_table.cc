#include "server/shard/tables/tiered_table.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/catch_out_of_memory.h"
#include "common/base/machine/prefetch.h"
#include "common/base/round_up.h"
#include "common/base/status_macros.h"
#include "server/shard/tables/stored_record.h"

namespace muster {
namespace {

// Rows whose memory is loaded ahead of the one in hand.
constexpr size_t kRowsAhead = 12;
// Bytes written to the store at once.
constexpr size_t kBatchBytes = 4 << 20;
// Rows that one call of DropExpired looks at, in each tier.
constexpr size_t kLookedAt = 4096;
constexpr uint64_t kNeverExpires = 0;
constexpr uint64_t kTierFormat = 1;

// What a table's record in kTierTable holds.
struct TierRecord {
  uint64_t format = kTierFormat;
  // Keys with something stored, and the highest log sequence number stored.
  uint64_t stored = 0;
  uint64_t highest_lsn = 0;
};

uint32_t Width(const SparseTable& rows) { return rows.width(); }
uint32_t Width(const RowMemory&) { return 0; }

}  // namespace

TieredTable::TieredTable(const SparseTableSpec& spec, uint64_t seed, const Optimizer& optimizer,
                         Options options)
    : options_(std::move(options)), rows_(spec, seed, optimizer), counts_(/*width=*/0) {}

// --- Look-ups.

absl::Status TieredTable::LoadStored(uint64_t key, ParameterStore::Value value) {
  StoredRecord record;
  const size_t row_bytes = sizeof(record) + width() * sizeof(float);
  if (value.size() != sizeof(record) && value.size() != row_bytes) {
    return absl::DataLossError(
        absl::StrCat("the stored row of key ", key, " of table ", options_.table, ", partition ",
                     options_.partition, " of job ", options_.job, " has ", value.size(),
                     " bytes, expected ", row_bytes, "; restore the job from its last checkpoint"));
  }
  std::memcpy(&record, value.data(), sizeof(record));
  const bool is_row = value.size() == row_bytes;
  Row& row = is_row ? rows_.At(rows_.AddUnfilled(key)) : counts_.At(counts_.Add(key));
  if (is_row) std::memcpy(row.values(), value.data() + sizeof(record), row_bytes - sizeof(record));
  row.lsn = record.lsn;
  row.steps = static_cast<uint32_t>(record.steps);
  row.last_use = static_cast<uint32_t>(record.last_use);
  row.flags = RowMemory::kStored;
  ++stored_in_memory_;
  return absl::OkStatus();
}

absl::Status TieredTable::LoadMissing(absl::Span<const uint64_t> keys) {
  if (rows_on_disk() == 0) return absl::OkStatus();
  missing_.clear();
  for (size_t i = 0; i < keys.size(); ++i) {
    // What is stored under the key of a count in memory is older than the count.
    if (numbers_[i] == kMissing && counts_.Find(keys[i]) == kMissing) missing_.push_back(keys[i]);
  }
  if (missing_.empty()) return absl::OkStatus();
  std::sort(missing_.begin(), missing_.end());
  missing_.erase(std::unique(missing_.begin(), missing_.end()), missing_.end());
  absl::Status loaded;
  MUSTER_RETURN_IF_ERROR(
      options_.store->MultiGet(options_.job, options_.table, options_.partition, missing_,
                               [&](size_t index, ParameterStore::Value value) {
                                 if (index + kRowsAhead < missing_.size()) {
                                   rows_.PrefetchKey(missing_[index + kRowsAhead]);
                                 }
                                 if (loaded.ok()) loaded = LoadStored(missing_[index], value);
                               }));
  MUSTER_RETURN_IF_ERROR(loaded);
  for (size_t i = 0; i < keys.size(); ++i) {
    if (numbers_[i] == kMissing) numbers_[i] = rows_.Find(keys[i]);
  }
  return absl::OkStatus();
}

absl::StatusOr<TieredTable::Fetched> TieredTable::Fetch(absl::Span<const uint64_t> keys) {
  Fetched fetched;
  fetched.keys_ = keys;
  fetched.serial_ = ++serial_;
  // As many as a client names; nothing has changed yet.
  MUSTER_RETURN_IF_ERROR(CatchOutOfMemory("a list of rows", [&] {
    numbers_.resize(keys.size());
    if (rows_on_disk() > 0) missing_.reserve(keys.size());
    return absl::OkStatus();
  }));
  const size_t missing = rows_.Find(keys, absl::MakeSpan(numbers_));
  if (missing > 0) MUSTER_RETURN_IF_ERROR(LoadMissing(keys));
  return fetched;
}

void TieredTable::Copy(absl::Span<const uint64_t> keys, uint64_t completed,
                       absl::Span<float> out) const {
  float* to = out.data();
  const auto prefetch = [this](size_t i) {
    if (i < numbers_.size() && numbers_[i] != kMissing) rows_.Prefetch(numbers_[i]);
  };
  for (size_t i = 0; i < kRowsAhead; ++i) prefetch(i);
  for (size_t i = 0; i < keys.size(); ++i, to += dim()) {
    prefetch(i + kRowsAhead);
    const Row* const row = numbers_[i] == kMissing ? nullptr : &rows_.At(numbers_[i]);
    if (row == nullptr || policy().Expired(row->last_use, row->steps, completed)) {
      rows_.ReadInitial(keys[i], {to, dim()});
    } else {
      std::copy_n(row->values(), dim(), to);
    }
  }
}

void TieredTable::Read(const Fetched& fetched, uint64_t completed, absl::Span<float> out) const {
  if (fetched.serial_ != serial_) std::abort();
  Copy(fetched.keys(), completed, out);
}

absl::Status TieredTable::Pull(absl::Span<const uint64_t> keys, uint64_t completed,
                               absl::Span<float> out) {
  MUSTER_RETURN_IF_ERROR(Fetch(keys).status());
  Copy(keys, completed, out);
  return absl::OkStatus();
}

// --- Updates.

uint32_t TieredTable::Admit(uint64_t key, uint32_t number, uint64_t clock, uint64_t completed,
                            uint64_t lsn) {
  uint32_t stored = 0;
  if (number != kMissing) {
    // The row expired: it is as if it had never been, except for what is stored under its key.
    stored = rows_.At(number).flags & RowMemory::kStored;
    rows_.Erase(number);
    NoteDropped(key);
  }
  if (policy().counts()) {
    uint32_t count_number = counts_.Find(key);
    if (count_number == kMissing) {
      count_number = counts_.Add(key);
      counts_.At(count_number).flags |= std::exchange(stored, 0);
    }
    Row& count = counts_.At(count_number);
    if (lsn != 0 && count.lsn >= lsn) return kMissing;
    if (policy().Expired(count.last_use, /*updates=*/0, completed)) count.steps = 0;
    if (count.steps == 0 || clock > count.last_use) ++count.steps;
    count.last_use = std::max(count.last_use, static_cast<uint32_t>(clock));
    count.lsn = lsn;
    count.flags |= RowMemory::kReferenced | RowMemory::kChanged;
    if (count.steps < policy().admit_after) return kMissing;
    stored = count.flags & RowMemory::kStored;
    counts_.Erase(count_number);
  }
  number = rows_.Add(key);
  rows_.At(number).flags |= stored;
  return number;
}

void TieredTable::AdmitMissing(const Fetched& fetched, uint64_t clock, uint64_t completed,
                               uint64_t lsn) {
  if (fetched.serial_ != serial_) std::abort();
  const absl::Span<const uint64_t> keys = fetched.keys();
  for (size_t i = 0; i < keys.size(); ++i) {
    uint32_t& number = numbers_[i];
    if (number != kMissing) {
      if (!policy().expires()) continue;
      const Row& row = rows_.At(number);
      if (lsn != 0 && row.lsn >= lsn) continue;
      if (!policy().Expired(row.last_use, row.steps, completed)) continue;
    }
    number = Admit(keys[i], number, clock, completed, lsn);
  }
}

void TieredTable::Update(const Fetched& fetched, absl::Span<const float> gradients,
                         const OptimizerStep& step, SparseTable::Steps steps, uint64_t clock,
                         uint64_t completed, uint64_t lsn) {
  AdmitMissing(fetched, clock, completed, lsn);
  rows_.UpdateRows(numbers_, gradients, step, steps, static_cast<uint32_t>(clock), lsn);
}

void TieredTable::Update(const Fetched& fetched, absl::Span<const float* const> gradients,
                         const OptimizerStep& step, SparseTable::Steps steps, uint64_t clock,
                         uint64_t completed, uint64_t lsn) {
  AdmitMissing(fetched, clock, completed, lsn);
  rows_.UpdateRows(numbers_, gradients, step, steps, static_cast<uint32_t>(clock), lsn);
}

// --- Writing.

absl::Status TieredTable::WriteBatch(StoreBatch& batch, uint64_t stored, uint64_t highest_lsn) {
  if (batch.changes().empty()) return absl::OkStatus();
  const TierRecord record{.stored = stored, .highest_lsn = std::max(highest_lsn_, highest_lsn)};
  if (options_.durability != ParameterStore::Durability::kScratch) {
    batch.Put(kTierTable, options_.partition, options_.table,
              {reinterpret_cast<const std::byte*>(&record), sizeof(record)});
  }
  MUSTER_RETURN_IF_ERROR(options_.store->Write(batch, options_.durability));
  stored_ = record.stored;
  highest_lsn_ = record.highest_lsn;
  return absl::OkStatus();
}

template <typename Memory>
absl::Status TieredTable::StoreRows(Memory& memory, absl::Span<const uint32_t> numbers,
                                    uint64_t completed) {
  // Only rows that the store is to hear of are sorted: where pulls are many, most evicted rows have
  // not changed.
  std::vector<std::pair<uint64_t, uint32_t>> sorted;
  for (size_t i = 0; i < numbers.size(); ++i) {
    if (i + kRowsAhead < numbers.size()) Prefetch(&memory.At(numbers[i + kRowsAhead]));
    const Row& row = memory.At(numbers[i]);
    if (row.flags & RowMemory::kChanged ||
        (row.flags & RowMemory::kStored &&
         policy().Expired(row.last_use, IsRow(memory) ? row.steps : 0, completed))) {
      sorted.emplace_back(row.key, numbers[i]);
    }
  }
  if (sorted.empty()) return absl::OkStatus();
  std::sort(sorted.begin(), sorted.end());
  const size_t value_bytes = Width(memory) * sizeof(float);
  const size_t bytes = sizeof(StoredRecord) + value_bytes;
  encoded_.resize(sorted.size() * bytes);
  StoreBatch batch(options_.job);
  std::byte* to = encoded_.data();
  uint64_t stored = stored_;
  uint64_t stored_in_memory = stored_in_memory_;
  uint64_t highest_lsn = 0;
  for (const auto& [key, number] : sorted) {
    const Row& row = memory.At(number);
    const bool was_stored = row.flags & RowMemory::kStored;
    if (policy().Expired(row.last_use, IsRow(memory) ? row.steps : 0, completed)) {
      if (!was_stored) continue;
      batch.Delete(options_.table, options_.partition, row.key);
      --stored;
      --stored_in_memory;
      continue;
    }
    if (!(row.flags & RowMemory::kChanged)) continue;
    const StoredRecord record{.lsn = row.lsn, .steps = row.steps, .last_use = row.last_use};
    std::memcpy(to, &record, sizeof(record));
    if (value_bytes > 0) std::memcpy(to + sizeof(record), row.values(), value_bytes);
    batch.Put(options_.table, options_.partition, row.key, {to, bytes});
    to += bytes;
    stored += !was_stored;
    stored_in_memory += !was_stored;
    highest_lsn = std::max(highest_lsn, row.lsn);
  }
  MUSTER_RETURN_IF_ERROR(WriteBatch(batch, stored, highest_lsn));
  stored_in_memory_ = stored_in_memory;
  for (const auto& [key, number] : sorted) {
    Row& row = memory.At(number);
    if (policy().Expired(row.last_use, IsRow(memory) ? row.steps : 0, completed)) {
      row.flags &= ~RowMemory::kStored;
    } else if (row.flags & RowMemory::kChanged) {
      row.flags = (row.flags & ~RowMemory::kChanged) | RowMemory::kStored;
    }
  }
  return absl::OkStatus();
}

template <typename Memory>
void TieredTable::EraseRows(Memory& memory, absl::Span<const uint32_t> numbers,
                            uint64_t completed) {
  for (size_t i = 0; i < numbers.size(); ++i) {
    const uint32_t number = numbers[i];
    if (i + kRowsAhead < numbers.size()) memory.PrefetchKey(memory.At(numbers[i + kRowsAhead]).key);
    const Row& row = memory.At(number);
    if (row.flags & RowMemory::kStored) {
      --stored_in_memory_;
    } else if (IsRow(memory) && policy().Expired(row.last_use, row.steps, completed)) {
      NoteDropped(row.key);
    }
    memory.Erase(number);
  }
}

template <typename Memory>
absl::Status TieredTable::EvictFrom(Memory& memory, uint32_t& hand, uint64_t bytes,
                                    uint64_t before_lsn, uint64_t completed) {
  const size_t row_bytes = memory.bytes_per_row();
  const size_t most = std::max<size_t>(1, kBatchBytes / row_bytes);
  uint64_t left = std::min<uint64_t>(memory.rows(), CeilDivide<uint64_t>(bytes, row_bytes));
  std::vector<uint32_t> victims;
  // Once around takes the marks of use away, twice takes all that may go.
  for (int rounds = 0; left > 0 && rounds < 3;) {
    uint32_t number = memory.Next(hand);
    if (number != kMissing) {
      hand = number + 1;
      Row& row = memory.At(number);
      if (row.flags & RowMemory::kReferenced) {
        row.flags &= ~RowMemory::kReferenced;
      } else if (row.lsn < before_lsn) {
        victims.push_back(number);
        --left;
      }
    } else {
      hand = 0;
      ++rounds;
    }
    // Before the hand may come by them again, too.
    if (victims.empty() || (victims.size() < most && left > 0 && number != kMissing)) continue;
    MUSTER_RETURN_IF_ERROR(StoreRows(memory, victims, completed));
    EraseRows(memory, victims, completed);
    victims.clear();
  }
  return absl::OkStatus();
}

absl::Status TieredTable::Evict(uint64_t bytes, uint64_t before_lsn, uint64_t completed) {
  ++serial_;
  const uint64_t used = used_bytes();
  if (used == 0) return absl::OkStatus();
  // Judged by the clock before the last completed one, for which values are kept.
  if (completed > 0) --completed;
  const uint64_t from_counts = static_cast<uint64_t>(
      static_cast<double>(bytes) * static_cast<double>(counts_.rows() * counts_.bytes_per_row()) /
      static_cast<double>(used));
  MUSTER_RETURN_IF_ERROR(
      EvictFrom(counts_, count_hands_.evict, from_counts, before_lsn, completed));
  return EvictFrom(rows_, row_hands_.evict, bytes - std::min(bytes, from_counts), before_lsn,
                   completed);
}

template <typename Memory>
absl::Status TieredTable::StoreChangedOf(Memory& memory) {
  const size_t most = std::max<size_t>(1, kBatchBytes / memory.bytes_per_row());
  std::vector<uint32_t> changed;
  for (uint32_t number = memory.Next(0);; number = memory.Next(number + 1)) {
    if (number != kMissing && memory.At(number).flags & RowMemory::kChanged) {
      changed.push_back(number);
    }
    if (changed.size() == most || number == kMissing) {
      // Expired ones as well: the clock is not known here.
      MUSTER_RETURN_IF_ERROR(StoreRows(memory, changed, kNeverExpires));
      changed.clear();
    }
    if (number == kMissing) return absl::OkStatus();
  }
}

absl::Status TieredTable::StoreChanged() {
  ++serial_;
  MUSTER_RETURN_IF_ERROR(StoreChangedOf(counts_));
  return StoreChangedOf(rows_);
}

// --- Expiry.

template <typename Memory>
absl::Status TieredTable::DropExpiredFrom(Memory& memory, uint32_t& hand, uint64_t completed) {
  std::vector<uint32_t> expired;
  for (size_t looked_at = 0; looked_at < kLookedAt; ++looked_at) {
    const uint32_t number = memory.Next(hand);
    if (number == kMissing) {
      hand = 0;
      break;
    }
    hand = number + 1;
    const Row& row = memory.At(number);
    if (policy().Expired(row.last_use, IsRow(memory) ? row.steps : 0, completed)) {
      expired.push_back(number);
    }
  }
  if (expired.empty()) return absl::OkStatus();
  if (options_.store != nullptr) MUSTER_RETURN_IF_ERROR(StoreRows(memory, expired, completed));
  EraseRows(memory, expired, completed);
  return absl::OkStatus();
}

absl::Status TieredTable::DropExpiredStored(uint64_t completed) {
  if (rows_on_disk() == 0) return absl::OkStatus();
  MUSTER_ASSIGN_OR_RETURN(const std::unique_ptr<StoreSnapshot> stored, SnapshotStored());
  StoreBatch batch(options_.job);
  std::vector<uint64_t> dropped;
  size_t looked_at = 0;
  const absl::Status scanned = stored->Scan(
      expire_stored_from_, [&](uint64_t key, ParameterStore::Value value) -> absl::Status {
        if (looked_at++ == kLookedAt) {
          expire_stored_from_ = key;
          return absl::CancelledError();
        }
        StoredRecord record;
        if (value.size() < sizeof(record)) return absl::OkStatus();
        std::memcpy(&record, value.data(), sizeof(record));
        const bool is_row = value.size() > sizeof(record);
        if (!policy().Expired(record.last_use, is_row ? record.steps : 0, completed) ||
            rows_.Find(key) != kMissing || counts_.Find(key) != kMissing) {
          return absl::OkStatus();
        }
        batch.Delete(options_.table, options_.partition, key);
        if (is_row) dropped.push_back(key);
        return absl::OkStatus();
      });
  if (scanned.ok()) expire_stored_from_ = 0;
  if (!scanned.ok() && !absl::IsCancelled(scanned)) return scanned;
  MUSTER_RETURN_IF_ERROR(WriteBatch(batch, stored_ - batch.changes().size(), /*highest_lsn=*/0));
  for (const uint64_t key : dropped) NoteDropped(key);
  return absl::OkStatus();
}

absl::Status TieredTable::DropExpired(uint64_t completed) {
  if (!policy().expires() || completed == 0) return absl::OkStatus();
  ++serial_;
  MUSTER_RETURN_IF_ERROR(DropExpiredFrom(rows_, row_hands_.expire, completed - 1));
  MUSTER_RETURN_IF_ERROR(DropExpiredFrom(counts_, count_hands_.expire, completed - 1));
  return DropExpiredStored(completed - 1);
}

// --- What is stored.

absl::Status TieredTable::Clear() {
  StoreBatch batch(options_.job);
  batch.DeletePartition(options_.table, options_.partition);
  batch.Delete(kTierTable, options_.partition, options_.table);
  stored_ = 0;
  return options_.store->Write(batch, ParameterStore::Durability::kBuffered);
}

absl::StatusOr<uint64_t> TieredTable::Recover() {
  absl::Status read;
  bool known = false;
  TierRecord record;
  const std::array<uint64_t, 1> key = {options_.table};
  MUSTER_RETURN_IF_ERROR(options_.store->MultiGet(
      options_.job, kTierTable, options_.partition, key, [&](size_t, ParameterStore::Value value) {
        if (value.size() == sizeof(record)) std::memcpy(&record, value.data(), sizeof(record));
        known = value.size() == sizeof(record) && record.format == kTierFormat;
        if (known) return;
        read = absl::DataLossError(absl::StrCat(
            "the record of what is stored of table ", options_.table, ", partition ",
            options_.partition, " of job ", options_.job, " is damaged, or of another version"));
      }));
  MUSTER_RETURN_IF_ERROR(read);
  if (!known || !options_.evicts) {
    // All of it is read: to be brought to memory, or counted where an earlier version wrote it.
    MUSTER_RETURN_IF_ERROR(
        options_.store->Scan(options_.job, options_.table, options_.partition,
                             [&](uint64_t stored_key, ParameterStore::Value value) -> absl::Status {
                               ++stored_;
                               if (!options_.evicts) {
                                 MUSTER_RETURN_IF_ERROR(LoadStored(stored_key, value));
                               }
                               StoredRecord stored;
                               if (value.size() >= sizeof(stored))
                                 std::memcpy(&stored, value.data(), sizeof(stored));
                               highest_lsn_ = std::max(highest_lsn_, stored.lsn);
                               return absl::OkStatus();
                             }));
    if (known && record.stored != stored_) {
      return absl::DataLossError(absl::StrCat("table ", options_.table, ", partition ",
                                              options_.partition, " of job ", options_.job, " has ",
                                              stored_, " stored rows, expected ", record.stored,
                                              "; restore the job from its last checkpoint"));
    }
    return highest_lsn_;
  }
  stored_ = record.stored;
  highest_lsn_ = record.highest_lsn;
  return highest_lsn_;
}

// --- Cuts.

absl::StatusOr<std::unique_ptr<StoreSnapshot>> TieredTable::SnapshotStored() const {
  if (rows_on_disk() == 0) return std::unique_ptr<StoreSnapshot>();
  return options_.store->Snapshot(options_.job, options_.table, options_.partition);
}

std::vector<TieredTable::Count> TieredTable::CountsInMemory() const {
  std::vector<Count> counts;
  for (uint32_t at = counts_.Next(0); at != kMissing; at = counts_.Next(at + 1)) {
    const Row& count = counts_.At(at);
    counts.push_back({.key = count.key, .clocks = count.steps, .last_use = count.last_use});
  }
  std::sort(counts.begin(), counts.end(),
            [](const Count& a, const Count& b) { return a.key < b.key; });
  return counts;
}

void TieredTable::LoadCount(const Count& count) {
  Row& row = counts_.At(counts_.Add(count.key));
  row.steps = count.clocks;
  row.last_use = count.last_use;
}

absl::optional<std::vector<uint64_t>> TieredTable::TakeDropped() {
  if (std::exchange(too_many_dropped_, false)) return absl::nullopt;
  return std::exchange(dropped_, {});
}

// Without cuts, or with few, the keys would take as much memory as rows that are alive.
void TieredTable::NoteDropped(uint64_t key) {
  if (!options_.notes_dropped || too_many_dropped_) return;
  if (dropped_.size() < options_.most_dropped) {
    dropped_.push_back(key);
    return;
  }
  too_many_dropped_ = true;
  dropped_ = {};
}

}  // namespace muster
