#include "common/checkpoint/checkpoint_reader.h"

#include <algorithm>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "common/base/status_macros.h"
#include "common/checkpoint/manifest.h"
#include "common/optim/optimizer.h"
#include "common/partition/rectangle.h"
#include "proto/checkpoint.pb.h"

namespace muster {
namespace {

constexpr absl::string_view kRestoreEarlier = "; restore from an earlier checkpoint or a backup";

constexpr absl::string_view kResidualPrefix = "residual/";
constexpr absl::string_view kCandidatesSuffix = " candidates";

// The schema's tensor whose shape a stored tensor has.
absl::string_view SchemaTensor(absl::string_view name) {
  absl::string_view rest = name;
  if (!absl::ConsumePrefix(&rest, kResidualPrefix)) return name;
  const size_t slash = rest.find('/');
  return slash == absl::string_view::npos ? name : rest.substr(slash + 1);
}

// Rows of a delta's chain that are newer than others of their keys, gathered from those visited.
class NewestRows {
 public:
  // Returns those of `rows` that were not seen; all are seen then if `remember`.
  const StoredRows& Filter(const StoredRows& rows, bool remember) {
    keys_.clear();
    steps_.clear();
    last_use_.clear();
    values_.clear();
    const bool all_columns = !rows.steps.empty();
    for (size_t i = 0; i < rows.size(); ++i) {
      const uint64_t key = rows.keys[i];
      if (remember ? !seen_.insert(key).second : seen_.contains(key)) continue;
      keys_.push_back(key);
      if (!all_columns) continue;
      steps_.push_back(rows.steps[i]);
      last_use_.push_back(rows.last_use[i]);
      const absl::Span<const float> row = rows.row(i);
      values_.insert(values_.end(), row.begin(), row.end());
    }
    filtered_ = {.keys = keys_,
                 .steps = steps_,
                 .last_use = last_use_,
                 .values = values_,
                 .width = rows.width};
    return filtered_;
  }

  void Drop(absl::Span<const uint64_t> keys) { seen_.insert(keys.begin(), keys.end()); }

 private:
  absl::flat_hash_set<uint64_t> seen_;
  std::vector<uint64_t> keys_;
  std::vector<uint32_t> steps_;
  std::vector<uint32_t> last_use_;
  std::vector<float> values_;
  StoredRows filtered_;
};

}  // namespace

CheckpointReader::CheckpointReader(const CheckpointStorage& storage, std::string folder,
                                   std::unique_ptr<const v1::CheckpointManifest> manifest)
    : storage_(storage), folder_(std::move(folder)), manifest_(std::move(manifest)) {}

CheckpointReader::~CheckpointReader() = default;

absl::StatusOr<std::unique_ptr<CheckpointReader>> CheckpointReader::Open(
    const CheckpointStorage& storage, absl::string_view folder) {
  MUSTER_ASSIGN_OR_RETURN(v1::CheckpointManifest manifest, ReadManifest(storage, folder));
  if (manifest.program()) {
    MUSTER_ASSIGN_OR_RETURN(manifest, ServedManifest(manifest));
  }
  std::unique_ptr<CheckpointReader> reader(new CheckpointReader(
      storage, std::string(folder), std::make_unique<v1::CheckpointManifest>(std::move(manifest))));
  MUSTER_RETURN_IF_ERROR(reader->OpenFiles());
  MUSTER_RETURN_IF_ERROR(reader->OpenBase());
  return reader;
}

absl::Status CheckpointReader::OpenBase() {
  if (!manifest_->has_base_clock()) return absl::OkStatus();
  MUSTER_ASSIGN_OR_RETURN(v1::CheckpointManifest manifest,
                          ReadBaseManifest(storage_, folder_, *manifest_));
  std::unique_ptr<CheckpointReader> base(
      new CheckpointReader(storage_, CheckpointBeside(folder_, manifest_->base_clock()),
                           std::make_unique<v1::CheckpointManifest>(std::move(manifest))));
  MUSTER_RETURN_IF_ERROR(base->OpenFiles());
  MUSTER_RETURN_IF_ERROR(base->OpenBase());
  base_ = std::move(base);
  return absl::OkStatus();
}

absl::Status CheckpointReader::CheckDensePiece(const std::string& uri,
                                               const v1::DensePiece& piece) const {
  const absl::string_view name = SchemaTensor(piece.tensor());
  for (const v1::TensorSchema& tensor : manifest_->schema().tensors()) {
    if (absl::string_view(tensor.name()) == name &&
        IsRectangleOf(tensor.shape(), piece.start(), piece.extent(), piece.end())) {
      return absl::OkStatus();
    }
  }
  return absl::DataLossError(
      absl::StrCat("the checkpoint file ", uri, " holds elements of '", piece.tensor(),
                   "' that the manifest's schema does not have", kRestoreEarlier));
}

absl::Status CheckpointReader::OpenFiles() {
  for (int i = 0; i < manifest_->files_size(); ++i) {
    const std::string uri = JoinUri(folder_, manifest_->files(i).path());
    auto file = std::make_unique<File>();
    absl::StatusOr<std::unique_ptr<PartitionFileReader>> reader =
        PartitionFileReader::Open(storage_, uri);
    if (absl::IsNotFound(reader.status())) {
      return absl::DataLossError(absl::StrCat(
          "the checkpoint file ", uri, ", which the manifest names, is missing", kRestoreEarlier));
    }
    MUSTER_RETURN_IF_ERROR(reader.status());
    file->reader = *std::move(reader);
    const v1::PartitionFileHeader& header = file->reader->header();
    if (header.job_id() != manifest_->job_id() || header.clock() != manifest_->clock() ||
        header.partition() != manifest_->files(i).partition()) {
      return absl::DataLossError(absl::StrCat(
          "the checkpoint file ", uri, " is of job ", header.job_id(), ", clock ", header.clock(),
          ", partition ", header.partition(), "; the manifest says job ", manifest_->job_id(),
          ", clock ", manifest_->clock(), ", partition ", manifest_->files(i).partition(),
          kRestoreEarlier));
    }
    if (header.has_base_clock() &&
        (!manifest_->has_base_clock() || header.base_clock() != manifest_->base_clock())) {
      return absl::DataLossError(absl::StrCat(
          "the checkpoint file ", uri, " goes on from clock ", header.base_clock(),
          ", the manifest's checkpoint ",
          manifest_->has_base_clock() ? absl::StrCat("from clock ", manifest_->base_clock())
                                      : std::string("is full"),
          kRestoreEarlier));
    }
    const std::vector<std::string> names(header.optimizer_slots().begin(),
                                         header.optimizer_slots().end());
    if (i == 0) state_names_ = names;
    if (names != state_names_) {
      return absl::DataLossError(absl::StrCat(
          "the checkpoint file ", uri, " has the optimizer state [", absl::StrJoin(names, ", "),
          "], that of partition 0 has [", absl::StrJoin(state_names_, ", "), "]", kRestoreEarlier));
    }
    for (int piece = 0; piece < header.dense_size(); ++piece) {
      const v1::DensePiece& dense = header.dense(piece);
      MUSTER_RETURN_IF_ERROR(CheckDensePiece(uri, dense));
      dense_[dense.tensor()].push_back({.file = files_.size(), .piece = piece});
    }
    files_.push_back(std::move(file));
  }
  return absl::OkStatus();
}

absl::Status CheckpointReader::Verify(size_t file) const {
  // Two callers at once may both read it: wasteful at worst, and no lock is held while reading.
  if (files_[file]->verified.load(std::memory_order_acquire)) return absl::OkStatus();
  MUSTER_RETURN_IF_ERROR(VerifyCheckpointFile(storage_, folder_, manifest_->files(file)));
  files_[file]->verified.store(true, std::memory_order_release);
  return absl::OkStatus();
}

std::vector<CheckpointReader::Overlap> CheckpointReader::OverlapsOf(const v1::TensorSchema& tensor,
                                                                    const v1::DensePiece& piece,
                                                                    absl::Span<const Run> wanted) {
  std::vector<Overlap> overlaps;
  const Run* run = wanted.begin();
  // Both series ascend in the tensor.
  ForEachContiguous(tensor.shape(), piece.start(), piece.extent(), piece.begin(), piece.end(),
                    [&](uint64_t first, uint64_t global, uint64_t count) {
                      for (; run != wanted.end() && run->global < global + count; ++run) {
                        const uint64_t from = std::max(global, run->global);
                        const uint64_t to = std::min(global + count, run->global + run->count);
                        if (from < to) {
                          const Overlap overlap = {first - piece.begin() + (from - global),
                                                   run->first + (from - run->global), to - from};
                          if (!overlaps.empty() && overlaps.back().IsFollowedBy(overlap)) {
                            overlaps.back().count += overlap.count;
                          } else {
                            overlaps.push_back(overlap);
                          }
                        }
                        // The next consecutive elements of the piece may have the rest of the run.
                        if (run->global + run->count > global + count) break;
                      }
                    });
  return overlaps;
}

uint64_t CheckpointReader::GlobalIndex(absl::Span<const Run> runs, uint64_t at) {
  for (const Run& run : runs) {
    if (at < run.first + run.count) return run.global + (at - run.first);
  }
  return 0;
}

absl::StatusOr<const v1::TensorSchema*> CheckpointReader::FindTensor(
    absl::string_view tensor) const {
  for (const v1::TensorSchema& schema : manifest_->schema().tensors()) {
    if (absl::string_view(schema.name()) == SchemaTensor(tensor)) return &schema;
  }
  return absl::NotFoundError(absl::StrCat("the checkpoint ", folder_, " has no tensor '", tensor,
                                          "'; it is of another model"));
}

absl::StatusOr<std::vector<CheckpointReader::Run>> CheckpointReader::RunsOf(
    const v1::TensorSchema& tensor, const Rectangle& rectangle, uint64_t begin,
    uint64_t end) const {
  if (begin > end || !IsRectangleOf(tensor.shape(), rectangle.start, rectangle.extent, end)) {
    if (rectangle.extent.empty()) {
      uint64_t elements = 1;
      for (const int64_t extent : tensor.shape()) elements *= extent;
      return absl::OutOfRangeError(absl::StrCat("elements ", begin, " to ", end, " of tensor ",
                                                tensor.name(), " asked for; in the checkpoint ",
                                                folder_, " it has ", elements));
    }
    return absl::OutOfRangeError(absl::StrCat(
        "elements ", begin, " to ", end, " of a part of tensor ", tensor.name(),
        " asked for, which begins at [", absl::StrJoin(rectangle.start, ", "), "] and is [",
        absl::StrJoin(rectangle.extent, ", "), "] long; in the checkpoint ", folder_,
        " the tensor's shape is [", absl::StrJoin(tensor.shape(), ", "), "]"));
  }
  std::vector<Run> runs;
  ForEachContiguous(tensor.shape(), rectangle.start, rectangle.extent, begin, end,
                    [&runs](uint64_t first, uint64_t global, uint64_t count) {
                      runs.push_back({first, global, count});
                    });
  return runs;
}

bool CheckpointReader::has_averages() const {
  return absl::c_linear_search(state_names_, kAverageState);
}

absl::Status CheckpointReader::CheckAverages() const {
  if (has_averages()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "job ", manifest_->job_id(), " kept no averages of its weights up to clock ",
      manifest_->clock(), ", since its optimizer.average_decay was 0: take the weights instead"));
}

absl::Status CheckpointReader::ReadTensor(absl::string_view tensor, absl::string_view state,
                                          uint64_t begin, absl::Span<float> values) const {
  return ReadRectangle(tensor, state, Rectangle(), begin, values);
}

absl::Status CheckpointReader::ReadRectangle(absl::string_view tensor, absl::string_view state,
                                             const Rectangle& rectangle, uint64_t begin,
                                             absl::Span<float> values) const {
  const uint64_t end = begin + values.size();
  MUSTER_ASSIGN_OR_RETURN(const v1::TensorSchema* const schema, FindTensor(tensor));
  MUSTER_ASSIGN_OR_RETURN(const std::vector<Run> wanted, RunsOf(*schema, rectangle, begin, end));
  int array = 0;
  if (!state.empty()) {
    const auto at = absl::c_find(state_names_, state);
    if (at == state_names_.end()) {
      return absl::NotFoundError(
          absl::StrCat("the checkpoint ", folder_, " has no optimizer state '", state, "', only [",
                       absl::StrJoin(state_names_, ", "),
                       "]; it is of another optimizer: restore its weights only"));
    }
    array = 1 + static_cast<int>(at - state_names_.begin());
  }
  // The elements of the rectangle that were read, to see that each came once.
  std::vector<std::pair<uint64_t, uint64_t>> covered;
  const auto pieces = dense_.find(tensor);
  if (pieces == dense_.end() && SchemaTensor(tensor) != tensor) {
    return absl::NotFoundError(absl::StrCat("the checkpoint ", folder_, " has no residuals '",
                                            tensor,
                                            "': its job pushed whole f32, or had no such slot"));
  }
  if (pieces != dense_.end()) {
    for (const Location& location : pieces->second) {
      const PartitionFileReader& file = *files_[location.file]->reader;
      const std::vector<Overlap> overlaps =
          OverlapsOf(*schema, file.header().dense(location.piece), wanted);
      if (overlaps.empty()) continue;
      MUSTER_RETURN_IF_ERROR(Verify(location.file));
      // A frozen tensor is its own average, and has no other state.
      const bool weights_alone = file.header().dense(location.piece).no_slots();
      if (weights_alone && array > 0 && state != kAverageState) {
        return absl::InvalidArgumentError(
            absl::StrCat("the checkpoint ", folder_, " has no optimizer state of tensor ", tensor,
                         ", which was frozen: begin with its weights only (initial_weights)"));
      }
      for (const Overlap& overlap : overlaps) {
        MUSTER_RETURN_IF_ERROR(file.ReadDense(location.piece, weights_alone ? 0 : array,
                                              overlap.from,
                                              values.subspan(overlap.to - begin, overlap.count)));
        covered.emplace_back(overlap.to, overlap.to + overlap.count);
      }
    }
  }
  absl::c_sort(covered);
  uint64_t at = begin;
  for (const auto& [first, last] : covered) {
    if (first != at) break;
    at = last;
  }
  if (at != end) {
    return absl::DataLossError(absl::StrCat("the checkpoint ", folder_, " holds element ",
                                            GlobalIndex(wanted, at), " of tensor ", tensor,
                                            " not exactly once", kRestoreEarlier));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::optional<LossScale>> CheckpointReader::ReadLossScale(uint32_t slot) const {
  for (size_t file = 0; file < files_.size(); ++file) {
    const auto& scales = files_[file]->reader->header().loss_scales();
    if (scales.empty()) continue;
    // The header is what is used of the file here, and it must be sound too.
    MUSTER_RETURN_IF_ERROR(Verify(file));
    const auto same = absl::c_find_if(
        scales, [slot](const v1::StoredLossScale& stored) { return stored.slot() == slot; });
    const v1::StoredLossScale& stored =
        same != scales.end() ? *same : scales[static_cast<int>(slot % scales.size())];
    return LossScale{.scale = stored.scale(), .steps = stored.steps()};
  }
  return std::nullopt;
}

absl::StatusOr<uint64_t> CheckpointReader::TensorSteps(absl::string_view tensor,
                                                       const Rectangle& rectangle, uint64_t begin,
                                                       uint64_t end) const {
  MUSTER_ASSIGN_OR_RETURN(const v1::TensorSchema* const schema, FindTensor(tensor));
  MUSTER_ASSIGN_OR_RETURN(const std::vector<Run> asked, RunsOf(*schema, rectangle, begin, end));
  uint64_t steps = 0;
  const auto pieces = dense_.find(tensor);
  if (pieces == dense_.end()) return steps;
  for (const Location& location : pieces->second) {
    const v1::DensePiece& piece = files_[location.file]->reader->header().dense(location.piece);
    if (piece.steps() <= steps || OverlapsOf(*schema, piece, asked).empty()) continue;
    // The header is what is used of the file here, and it must be sound too.
    MUSTER_RETURN_IF_ERROR(Verify(location.file));
    steps = piece.steps();
  }
  return steps;
}

absl::Status CheckpointReader::CheckSparseTable(absl::string_view table) const {
  const absl::string_view name = absl::StripSuffix(table, kCandidatesSuffix);
  for (const v1::SparseTableSchema& schema : manifest_->schema().sparse()) {
    if (absl::string_view(schema.name()) == name) return absl::OkStatus();
  }
  return absl::NotFoundError(absl::StrCat("the checkpoint ", folder_, " has no sparse table '",
                                          table, "'; it is of another model"));
}

absl::Status CheckpointReader::VisitPieces(
    size_t file, absl::string_view table,
    absl::FunctionRef<absl::Status(const PartitionFileReader& file, int piece)> visitor) const {
  MUSTER_RETURN_IF_ERROR(Verify(file));
  const PartitionFileReader& reader = *files_[file]->reader;
  for (int piece = 0; piece < reader.header().sparse_size(); ++piece) {
    if (absl::string_view(reader.header().sparse(piece).table()) != table) continue;
    MUSTER_RETURN_IF_ERROR(visitor(reader, piece));
  }
  return absl::OkStatus();
}

absl::Status CheckpointReader::VisitRows(
    absl::string_view table, std::optional<uint32_t> partition, Columns columns,
    absl::FunctionRef<absl::Status(const StoredRows&)> visitor) const {
  MUSTER_RETURN_IF_ERROR(CheckSparseTable(table));
  if (partition.has_value() && *partition >= files_.size()) {
    return absl::NotFoundError(absl::StrCat("the checkpoint ", folder_, " has no partition ",
                                            *partition, ", only ", files_.size()));
  }
  const size_t first = partition.value_or(0);
  const size_t last = partition.has_value() ? first + 1 : files_.size();
  for (size_t i = first; i < last; ++i) {
    MUSTER_RETURN_IF_ERROR(VisitChain(i, table, columns, visitor));
  }
  return absl::OkStatus();
}

absl::Status CheckpointReader::VisitChain(
    size_t file, absl::string_view table, Columns columns,
    absl::FunctionRef<absl::Status(const StoredRows&)> visitor) const {
  NewestRows newest;
  bool more = true;
  for (const CheckpointReader* layer = this; more; layer = layer->base_.get()) {
    const bool is_delta = layer->files_[file]->reader->header().has_base_clock();
    more = is_delta;
    const auto visit = [&](const PartitionFileReader& reader, int piece) -> absl::Status {
      if (reader.header().sparse(piece).whole()) more = false;
      const auto pass = [&](const StoredRows& rows) {
        // What is full and not under a delta is handed on as it lies in the file.
        if (layer == this && !more) return visitor(rows);
        const StoredRows& filtered = newest.Filter(rows, more);
        return filtered.size() == 0 ? absl::OkStatus() : visitor(filtered);
      };
      MUSTER_RETURN_IF_ERROR(columns == Columns::kAll
                                 ? reader.ReadSparse(piece, pass)
                                 : reader.ReadKeys(piece, [&pass](absl::Span<const uint64_t> keys) {
                                     return pass(
                                         {.keys = keys, .steps = {}, .last_use = {}, .values = {}});
                                   }));
      return reader.ReadDropped(piece, [&newest](absl::Span<const uint64_t> keys) {
        newest.Drop(keys);
        return absl::OkStatus();
      });
    };
    MUSTER_RETURN_IF_ERROR(layer->VisitPieces(file, table, visit));
  }
  return absl::OkStatus();
}

absl::Status CheckpointReader::ReadSparse(
    absl::string_view table, std::optional<uint32_t> partition,
    absl::FunctionRef<absl::Status(const StoredRows&)> visitor) const {
  return VisitRows(table, partition, Columns::kAll, visitor);
}

absl::Status CheckpointReader::ReadSparseKeys(
    absl::string_view table,
    absl::FunctionRef<absl::Status(absl::Span<const uint64_t>)> visitor) const {
  return VisitRows(table, std::nullopt, Columns::kKeys,
                   [&visitor](const StoredRows& rows) { return visitor(rows.keys); });
}

absl::StatusOr<uint64_t> CheckpointReader::SparseRowCount(absl::string_view table) const {
  uint64_t count = 0;
  MUSTER_RETURN_IF_ERROR(
      VisitRows(table, std::nullopt, Columns::kKeys, [&count](const StoredRows& rows) {
        count += rows.size();
        return absl::OkStatus();
      }));
  return count;
}

}  // namespace muster
