#include "server/shard/checkpoint/cut_view.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/checkpoint/manifest.h"
#include "proto/checkpoint.pb.h"
#include "proto/parameter_service.pb.h"
#include "server/shard/tables/stored_record.h"

namespace muster {
namespace {

// Rows on disk that are written as one group.
constexpr size_t kGroupBytes = 4 << 20;

bool Before(const TieredTable::Count& a, const TieredTable::Count& b) { return a.key < b.key; }

}  // namespace

absl::StatusOr<std::shared_ptr<CutView>> CutView::Take(PartitionTables& tables, uint64_t clock) {
  const JobTables& job = *tables.job;
  std::shared_ptr<CutView> file(new CutView());
  file->job_ = tables.job;
  file->checkpoint_root_ = job.request().checkpoint_root();
  PartitionContent& content = file->content_;
  content.job_id = job.job_id();
  content.generation = job.generation();
  content.clock = clock;
  content.partition = tables.partition;
  content.state_names = job.dense_optimizer().state_names();
  content.packs_pairs = job.dense_optimizer().packs_pairs();
  content.tensors = job.tables().tensors;
  for (uint32_t i = 0; i < tables.dense.size(); ++i) {
    const DenseTable::Block& block = tables.dense.block(i);
    file->held_.push_back(block.weights.Read());
    const absl::Span<const float> weights(file->held_.back().get(), block.weights.size());
    file->held_.push_back(block.state.Read());
    const absl::Span<const float> state(file->held_.back().get(), block.state.size());
    content.blocks.push_back(
        {.layout = block.layout, .weights = weights, .state = state, .steps = block.steps});
  }
  for (size_t i = 0; i < tables.sparse.size(); ++i) {
    TieredTable& table = tables.sparse[i];
    Table& taken = file->sparse_.emplace_back();
    taken.policy = table.policy();
    MUSTER_ASSIGN_OR_RETURN(taken.stored, table.SnapshotStored());
    if (taken.stored != nullptr) taken.next_stored = 0;
    taken.counts = table.CountsInMemory();
    taken.dropped = table.TakeDropped();
    content.sparse.push_back(
        {.table = job.tables().sparse[i].name, .width = table.width(), .rows = {}, .whole = false});
  }
  for (size_t i = 0; i < tables.sparse.size(); ++i) {
    if (!tables.sparse[i].policy().counts()) continue;
    file->sparse_[i].counts_piece = static_cast<int>(content.sparse.size());
    content.sparse.push_back({.table = CandidatesTable(job.tables().sparse[i].name),
                              .width = 0,
                              .rows = {},
                              .whole = true});
  }
  return file;
}

bool CutView::Wanted(size_t table, uint64_t steps, uint64_t last_use) const {
  if (content_.base.has_value() && last_use < *content_.base) return false;
  return !sparse_[table].policy.Expired(last_use, steps, clock());
}

bool CutView::Struck(size_t table, uint64_t steps, uint64_t last_use) const {
  return content_.base.has_value() && sparse_[table].policy.Expired(last_use, steps, clock());
}

bool CutView::knows_dropped() const {
  return std::all_of(sparse_.begin(), sparse_.end(),
                     [](const Table& table) { return table.dropped.has_value(); });
}

void CutView::AddResidual(uint32_t slot, std::shared_ptr<const float> values) {
  for (const PartitionContent::Residual& known : content_.residuals) {
    if (known.slot == slot) return;
  }
  PartitionContent::Residual& residual = content_.residuals.emplace_back();
  residual.slot = slot;
  const float* at = values.get();
  for (const PartitionContent::Block& block : content_.blocks) {
    residual.blocks.push_back({at, block.weights.size()});
    at += block.weights.size();
  }
  held_.push_back(std::move(values));
}

void CutView::AddLossScale(const SlotLossScale& scale) {
  for (const SlotLossScale& known : content_.loss_scales) {
    if (known.slot == scale.slot) return;
  }
  content_.loss_scales.push_back(scale);
}

absl::Status CutView::Open(CheckpointStorage& storage) {
  for (Table& table : sparse_) std::sort(table.entries.begin(), table.entries.end());
  // Slots may have come in any order.
  std::sort(content_.residuals.begin(), content_.residuals.end(),
            [](const auto& a, const auto& b) { return a.slot < b.slot; });
  std::sort(content_.loss_scales.begin(), content_.loss_scales.end(),
            [](const auto& a, const auto& b) { return a.slot < b.slot; });
  MUSTER_ASSIGN_OR_RETURN(
      writer_, PartitionFileWriter::Create(
                   storage, CheckpointFolder(checkpoint_root_, content_.job_id, content_.clock),
                   NewPartitionFileName(content_.partition, content_.generation),
                   PartitionHeader(content_)));
  MUSTER_RETURN_IF_ERROR(AppendDensePieces(content_, *writer_));
  // Training need not copy them any more.
  content_.blocks.clear();
  content_.residuals.clear();
  held_.clear();
  return absl::OkStatus();
}

absl::Status CutView::Append(size_t table, size_t begin, size_t end) {
  Table& it = sparse_[table];
  const int piece = static_cast<int>(table);
  if (it.next_stored.has_value()) {
    MUSTER_RETURN_IF_ERROR(MergeStored(table, begin, end));
  } else {
    MUSTER_RETURN_IF_ERROR(writer_->AppendRows(piece, rows_.view()));
  }
  if (end < it.entries.size() || !content_.base.has_value()) return absl::OkStatus();
  return writer_->AppendDropped(piece, *it.dropped);
}

absl::Status CutView::AppendMerged(size_t table) {
  const absl::Status status = writer_->AppendRows(static_cast<int>(table), merged_.view());
  merged_.Clear();
  return status;
}

// Merges two ordered sequences: a stored value goes before the first entry that is not before it.
absl::Status CutView::MergeStored(size_t table, size_t begin, size_t end) {
  Table& it = sparse_[table];
  const uint32_t width = rows_.width;
  const size_t value_bytes = width * sizeof(float);
  const size_t group = std::max<size_t>(1, kGroupBytes / (value_bytes + 2 * sizeof(uint64_t)));
  const bool last = end == it.entries.size();
  size_t entry = begin;
  size_t row = 0;
  const auto take_entry = [&] {
    if (it.entries[entry++].wanted) {
      merged_.Append(rows_.keys[row], rows_.steps[row], rows_.last_use[row],
                     rows_.values.data() + row * width);
      ++row;
    }
  };
  merged_.Clear();
  merged_.width = width;
  std::vector<float> values(width);
  const absl::Status scanned = it.stored->Scan(
      *it.next_stored, [&](uint64_t key, absl::Span<const std::byte> value) -> absl::Status {
        if (!last && key > it.entries[end - 1].key) {
          it.next_stored = key;
          return absl::CancelledError();
        }
        while (entry < end && it.entries[entry].key < key) take_entry();
        if (merged_.keys.size() >= group) MUSTER_RETURN_IF_ERROR(AppendMerged(table));
        // What memory had of a key was newer.
        if (entry < end && it.entries[entry].key == key) return absl::OkStatus();
        if (std::binary_search(it.counts.begin(), it.counts.end(), Count{.key = key}, Before)) {
          return absl::OkStatus();
        }
        StoredRecord record;
        if (value.size() != sizeof(record) && value.size() != sizeof(record) + value_bytes) {
          return absl::DataLossError(absl::StrCat(
              "the stored row of key ", key, " of table ", content_.sparse[table].table, " has ",
              value.size(), " bytes, expected ", sizeof(record) + value_bytes));
        }
        std::memcpy(&record, value.data(), sizeof(record));
        if (value.size() == sizeof(record)) {
          it.stored_counts.push_back({.key = key,
                                      .clocks = static_cast<uint32_t>(record.steps),
                                      .last_use = static_cast<uint32_t>(record.last_use)});
          return absl::OkStatus();
        }
        if (Struck(table, record.steps, record.last_use)) Strike(table, key);
        if (!Wanted(table, record.steps, record.last_use)) return absl::OkStatus();
        if (width > 0) std::memcpy(values.data(), value.data() + sizeof(record), value_bytes);
        merged_.Append(key, static_cast<uint32_t>(record.steps),
                       static_cast<uint32_t>(record.last_use), values.data());
        return absl::OkStatus();
      });
  if (!scanned.ok() && !absl::IsCancelled(scanned)) return scanned;
  while (entry < end) take_entry();
  if (scanned.ok()) it.next_stored.reset();
  return AppendMerged(table);
}

absl::Status CutView::AppendCounts(const Table& table) {
  std::vector<Count> counts;
  std::merge(table.counts.begin(), table.counts.end(), table.stored_counts.begin(),
             table.stored_counts.end(), std::back_inserter(counts), Before);
  TableSnapshot::Rows rows;
  for (const Count& count : counts) {
    if (table.policy.Expired(count.last_use, /*updates=*/0, clock())) continue;
    rows.Append(count.key, count.clocks, count.last_use, nullptr);
  }
  return writer_->AppendRows(table.counts_piece, rows.view());
}

absl::StatusOr<PartitionFileInfo> CutView::Finish() {
  for (const Table& table : sparse_) {
    if (table.counts_piece >= 0) MUSTER_RETURN_IF_ERROR(AppendCounts(table));
  }
  return writer_->Finish();
}

}  // namespace muster
