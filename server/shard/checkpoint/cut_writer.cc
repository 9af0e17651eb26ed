#include "server/shard/checkpoint/cut_writer.h"

#include <algorithm>
#include <utility>

#include "common/base/catch_out_of_memory.h"
#include "server/shard/checkpoint/cut_view.h"

namespace muster {
namespace {

// Work of one turn on the strand, about a millisecond each: rows whose keys are noted, and bytes of
// rows that are copied.
constexpr size_t kCollectedAtOnce = 32768;
constexpr size_t kRowBytesAtOnce = 2 << 20;

}  // namespace

CutWriter::CutWriter(PartitionTables& tables, Options options, std::shared_ptr<Executor> strand,
                     std::shared_ptr<Executor> files)
    : tables_(tables),
      options_(options),
      strand_(std::move(strand)),
      files_(std::move(files)),
      self_(std::make_shared<CutWriter*>(this)) {}

CutWriter::~CutWriter() = default;

absl::optional<uint64_t> CutWriter::clock() const {
  return view_ == nullptr ? absl::nullopt : absl::make_optional(view_->clock());
}

size_t CutWriter::memory_bytes() const {
  size_t bytes = 0;
  for (const auto& snapshot : snapshots_) bytes += snapshot->memory_bytes();
  return bytes;
}

absl::Status CutWriter::Take(uint64_t clock) {
  snapshots_.clear();
  view_.reset();
  absl::StatusOr<std::shared_ptr<CutView>> view = CutView::Take(tables_, clock);
  if (!view.ok()) {
    // The keys that were dropped since are known no more.
    last_taken_.reset();
    return view.status();
  }
  view_ = *std::move(view);
  for (TieredTable& table : tables_.sparse) {
    snapshots_.push_back(std::make_unique<TableSnapshot>(table.memory()));
  }
  before_ = std::exchange(last_taken_, clock);
  return absl::OkStatus();
}

void CutWriter::Drop() {
  snapshots_.clear();
  view_.reset();
}

void CutWriter::AddResidual(uint32_t slot, std::shared_ptr<const float> values) {
  view_->AddResidual(slot, std::move(values));
}

size_t CutWriter::residuals() const { return view_->residuals(); }

void CutWriter::AddLossScale(const SlotLossScale& scale) { view_->AddLossScale(scale); }

size_t CutWriter::loss_scales() const { return view_->loss_scales(); }

void CutWriter::Write(absl::optional<uint64_t> base, Done done) {
  const bool known = base.has_value() && base == before_ && view_->knows_dropped();
  view_->set_base(known ? base : absl::nullopt);
  done_ = std::move(done);
  writing_ = true;
  table_ = 0;
  entry_ = 0;
  OnStrand(&CutWriter::Collect);
}

void CutWriter::OnStrand(void (CutWriter::*step)()) {
  strand_->Add([weak = std::weak_ptr<CutWriter*>(self_), step] {
    if (const std::shared_ptr<CutWriter*> self = weak.lock()) ((*self)->*step)();
  });
}

void CutWriter::OnFiles(std::function<absl::Status(CutView&)> work, void (CutWriter::*step)()) {
  files_->Add([weak = std::weak_ptr<CutWriter*>(self_), strand = strand_, view = view_,
               crash_point = options_.crash_point, work = std::move(work), step] {
    // Nobody waits for it any more, or nobody may see it.
    if (weak.expired() || crash_point->Pass("cut_file")) return;
    const absl::Status status = CatchOutOfMemory("a cut's file", [&] { return work(*view); });
    if (crash_point->crashed()) return;
    strand->Add([weak, status, step] {
      const std::shared_ptr<CutWriter*> self = weak.lock();
      if (self == nullptr) return;
      if (status.ok()) return ((*self)->*step)();
      (*self)->Finish(status);
    });
  });
}

void CutWriter::Collect() {
  if (options_.crash_point->crashed()) return;
  if (table_ < snapshots_.size()) {
    std::vector<TableSnapshot::Entry>& entries = view_->entries(table_);
    std::vector<size_t> struck;
    const auto wanted = [&](uint32_t steps, uint32_t last_use) {
      if (view_->Struck(table_, steps, last_use)) struck.push_back(entries.size());
      return view_->Wanted(table_, steps, last_use);
    };
    const bool last = snapshots_[table_]->Collect(kCollectedAtOnce, wanted, entries);
    for (const size_t entry : struck) view_->Strike(table_, entries[entry].key);
    if (last) ++table_;
    return OnStrand(&CutWriter::Collect);
  }
  table_ = 0;
  CheckpointStorage* const storage = options_.storage;
  OnFiles([storage](CutView& view) { return view.Open(*storage); }, &CutWriter::NextRows);
}

void CutWriter::NextRows() {
  if (options_.crash_point->crashed()) return;
  if (table_ == snapshots_.size()) return FinishFile();
  TableSnapshot& snapshot = *snapshots_[table_];
  const std::vector<TableSnapshot::Entry>& entries = view_->entries(table_);
  const size_t most = std::max<size_t>(1, kRowBytesAtOnce / (16 + snapshot.width() * 4));
  const size_t begin = entry_;
  for (size_t rows = 0; entry_ < entries.size() && rows < most; ++entry_) {
    rows += entries[entry_].wanted;
  }
  view_->rows().Clear();
  snapshot.Read(absl::MakeConstSpan(entries).subspan(begin, entry_ - begin), view_->rows());
  const size_t table = table_;
  const size_t end = entry_;
  if (entry_ == entries.size()) {
    ++table_;
    entry_ = 0;
  }
  OnFiles([table, begin, end](CutView& view) { return view.Append(table, begin, end); },
          &CutWriter::NextRows);
}

void CutWriter::FinishFile() {
  // Rows are all read out: changes need not be copied aside any more.
  snapshots_.clear();
  auto info = std::make_shared<PartitionFileInfo>();
  written_ = info;
  OnFiles(
      [info](CutView& view) -> absl::Status {
        absl::StatusOr<PartitionFileInfo> finished = view.Finish();
        if (finished.ok()) *info = *std::move(finished);
        return finished.status();
      },
      &CutWriter::Written);
}

void CutWriter::Written() { Finish(*written_); }

void CutWriter::Finish(const absl::StatusOr<PartitionFileInfo>& file) {
  snapshots_.clear();
  view_.reset();
  writing_ = false;
  std::exchange(done_, nullptr)(file);
}

}  // namespace muster
