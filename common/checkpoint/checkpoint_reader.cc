#include "common/checkpoint/checkpoint_reader.h"

#include <algorithm>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/status_macros.h"
#include "common/checkpoint/manifest.h"
#include "common/checkpoint/rectangle.h"
#include "proto/checkpoint.pb.h"

namespace muster {
namespace {

constexpr absl::string_view kRemedy = "; restore from an earlier checkpoint or a backup";

// Elements [from, from + count) of a piece are the tensor's elements [to, to + count).
struct Run {
  uint64_t from = 0;
  uint64_t to = 0;
  uint64_t count = 0;
};

// The runs of a piece within elements [begin, end) of its tensor.
std::vector<Run> Overlap(const v1::TensorSchema& tensor, const v1::DensePiece& piece,
                         uint64_t begin, uint64_t end) {
  std::vector<Run> runs;
  ForEachRun(tensor.shape(), piece.start(), piece.extent(), piece.begin(), piece.end(),
             [&](uint64_t first, uint64_t global, uint64_t count) {
               const uint64_t from = std::max(global, begin);
               const uint64_t to = std::min(global + count, end);
               if (from < to) {
                 runs.push_back({first - piece.begin() + (from - global), from, to - from});
               }
             });
  return runs;
}

}  // namespace

CheckpointReader::CheckpointReader(const CheckpointStorage& storage, std::string folder,
                                   std::unique_ptr<const v1::CheckpointManifest> manifest)
    : storage_(storage), folder_(std::move(folder)), manifest_(std::move(manifest)) {}

CheckpointReader::~CheckpointReader() = default;

absl::StatusOr<std::unique_ptr<CheckpointReader>> CheckpointReader::Open(
    const CheckpointStorage& storage, absl::string_view folder) {
  MUSTER_ASSIGN_OR_RETURN(v1::CheckpointManifest manifest, ReadManifest(storage, folder));
  std::unique_ptr<CheckpointReader> reader(new CheckpointReader(
      storage, std::string(folder), std::make_unique<v1::CheckpointManifest>(std::move(manifest))));
  MUSTER_RETURN_IF_ERROR(reader->OpenFiles());
  return reader;
}

absl::Status CheckpointReader::OpenFiles() {
  for (int i = 0; i < manifest_->files_size(); ++i) {
    const std::string uri = JoinUri(folder_, manifest_->files(i).path());
    auto file = std::make_unique<File>();
    absl::StatusOr<std::unique_ptr<PartitionFileReader>> reader =
        PartitionFileReader::Open(storage_, uri);
    if (absl::IsNotFound(reader.status())) {
      return absl::DataLossError(absl::StrCat("the checkpoint file ", uri,
                                              ", which the manifest names, is missing", kRemedy));
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
          kRemedy));
    }
    const std::vector<std::string> slots(header.optimizer_slots().begin(),
                                         header.optimizer_slots().end());
    if (i == 0) optimizer_slots_ = slots;
    if (slots != optimizer_slots_) {
      return absl::DataLossError(absl::StrCat(
          "the checkpoint file ", uri, " has the optimizer slots [", absl::StrJoin(slots, ", "),
          "], that of partition 0 has [", absl::StrJoin(optimizer_slots_, ", "), "]", kRemedy));
    }
    for (int piece = 0; piece < header.dense_size(); ++piece) {
      const v1::DensePiece& dense = header.dense(piece);
      const auto tensor = absl::c_find_if(
          manifest_->schema().tensors(),
          [&dense](const v1::TensorSchema& t) { return t.name() == dense.tensor(); });
      if (tensor == manifest_->schema().tensors().end() ||
          !IsRectangleOf(tensor->shape(), dense.start(), dense.extent(), dense.end())) {
        return absl::DataLossError(
            absl::StrCat("the checkpoint file ", uri, " holds elements of '", dense.tensor(),
                         "' that the manifest's schema does not have", kRemedy));
      }
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

absl::StatusOr<int> CheckpointReader::FindTensor(absl::string_view tensor, uint64_t begin,
                                                 uint64_t end) const {
  for (int i = 0; i < manifest_->schema().tensors_size(); ++i) {
    const v1::TensorSchema& schema = manifest_->schema().tensors(i);
    if (schema.name() != tensor) continue;
    uint64_t elements = 1;
    for (const int64_t extent : schema.shape()) elements *= extent;
    if (begin > end || end > elements) {
      return absl::OutOfRangeError(absl::StrCat("elements ", begin, " to ", end, " of tensor ",
                                                tensor, " asked for; in the checkpoint ", folder_,
                                                " it has ", elements));
    }
    return i;
  }
  return absl::NotFoundError(absl::StrCat("the checkpoint ", folder_, " has no tensor '", tensor,
                                          "'; it is of another model"));
}

absl::Status CheckpointReader::ReadTensor(absl::string_view tensor, absl::string_view slot,
                                          uint64_t begin, absl::Span<float> values) const {
  const uint64_t end = begin + values.size();
  MUSTER_ASSIGN_OR_RETURN(const int index, FindTensor(tensor, begin, end));
  int array = 0;
  if (!slot.empty()) {
    const auto at = absl::c_find(optimizer_slots_, slot);
    if (at == optimizer_slots_.end()) {
      return absl::NotFoundError(
          absl::StrCat("the checkpoint ", folder_, " has no optimizer slot '", slot, "', only [",
                       absl::StrJoin(optimizer_slots_, ", "),
                       "]; it is of another optimizer: restore its weights only"));
    }
    array = 1 + static_cast<int>(at - optimizer_slots_.begin());
  }
  // Where elements were read to, to see that each came once.
  std::vector<std::pair<uint64_t, uint64_t>> covered;
  const auto pieces = dense_.find(tensor);
  if (pieces != dense_.end()) {
    for (const Location& location : pieces->second) {
      const PartitionFileReader& file = *files_[location.file]->reader;
      const std::vector<Run> runs = Overlap(manifest_->schema().tensors(index),
                                            file.header().dense(location.piece), begin, end);
      if (runs.empty()) continue;
      MUSTER_RETURN_IF_ERROR(Verify(location.file));
      for (const Run& run : runs) {
        MUSTER_RETURN_IF_ERROR(file.ReadDense(location.piece, array, run.from,
                                              values.subspan(run.to - begin, run.count)));
        covered.emplace_back(run.to, run.to + run.count);
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
    return absl::DataLossError(absl::StrCat("the checkpoint ", folder_, " holds element ", at,
                                            " of tensor ", tensor, " not exactly once", kRemedy));
  }
  return absl::OkStatus();
}

absl::StatusOr<uint64_t> CheckpointReader::TensorSteps(absl::string_view tensor, uint64_t begin,
                                                       uint64_t end) const {
  MUSTER_ASSIGN_OR_RETURN(const int index, FindTensor(tensor, begin, end));
  uint64_t steps = 0;
  const auto pieces = dense_.find(tensor);
  if (pieces == dense_.end()) return steps;
  for (const Location& location : pieces->second) {
    const v1::DensePiece& piece = files_[location.file]->reader->header().dense(location.piece);
    if (piece.steps() <= steps ||
        Overlap(manifest_->schema().tensors(index), piece, begin, end).empty()) {
      continue;
    }
    // The header is what is used of the file here, and it must be sound too.
    MUSTER_RETURN_IF_ERROR(Verify(location.file));
    steps = piece.steps();
  }
  return steps;
}

absl::Status CheckpointReader::CheckSparseTable(absl::string_view table) const {
  for (const v1::SparseTableSchema& schema : manifest_->schema().sparse()) {
    if (schema.name() == table) return absl::OkStatus();
  }
  return absl::NotFoundError(absl::StrCat("the checkpoint ", folder_, " has no sparse table '",
                                          table, "'; it is of another model"));
}

absl::Status CheckpointReader::VisitSparse(
    absl::string_view table, std::optional<uint32_t> partition,
    absl::FunctionRef<absl::Status(const PartitionFileReader& file, int piece)> visitor) const {
  MUSTER_RETURN_IF_ERROR(CheckSparseTable(table));
  if (partition.has_value() && *partition >= files_.size()) {
    return absl::NotFoundError(absl::StrCat("the checkpoint ", folder_, " has no partition ",
                                            *partition, ", only ", files_.size()));
  }
  const size_t first = partition.value_or(0);
  const size_t last = partition.has_value() ? first + 1 : files_.size();
  for (size_t i = first; i < last; ++i) {
    const PartitionFileReader& file = *files_[i]->reader;
    MUSTER_RETURN_IF_ERROR(Verify(i));
    for (int piece = 0; piece < file.header().sparse_size(); ++piece) {
      if (file.header().sparse(piece).table() != table) continue;
      MUSTER_RETURN_IF_ERROR(visitor(file, piece));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckpointReader::ReadSparse(
    absl::string_view table, std::optional<uint32_t> partition,
    absl::FunctionRef<absl::Status(const StoredRows&)> visitor) const {
  return VisitSparse(table, partition, [&visitor](const PartitionFileReader& file, int piece) {
    return file.ReadSparse(piece, visitor);
  });
}

absl::Status CheckpointReader::ReadSparseKeys(
    absl::string_view table,
    absl::FunctionRef<absl::Status(absl::Span<const uint64_t>)> visitor) const {
  return VisitSparse(table, std::nullopt, [&visitor](const PartitionFileReader& file, int piece) {
    return file.ReadKeys(piece, visitor);
  });
}

absl::StatusOr<uint64_t> CheckpointReader::SparseRowCount(absl::string_view table) const {
  uint64_t rows = 0;
  MUSTER_RETURN_IF_ERROR(
      VisitSparse(table, std::nullopt, [&rows](const PartitionFileReader& file, int piece) {
        rows += file.header().sparse(piece).rows();
        return absl::OkStatus();
      }));
  return rows;
}

}  // namespace muster
