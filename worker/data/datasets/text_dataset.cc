#include "worker/data/datasets/text_dataset.h"

#include <algorithm>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/base/fingerprint.h"
#include "common/base/status_macros.h"
#include "common/files/text_files.h"

namespace muster {
namespace {

constexpr int64_t kByteValues = 256;

}  // namespace

absl::StatusOr<std::unique_ptr<const TextDataset>> TextDataset::Create(const std::string& path,
                                                                       int64_t context) {
  if (context < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("A text's context is ", context, " bytes; it must be at least 0"));
  }
  std::vector<FileContent> files;
  MUSTER_RETURN_IF_ERROR(ForEachTextFile(path, [&](const std::string&, FileContent file) {
    files.push_back(std::move(file));
    return absl::OkStatus();
  }));
  return absl::WrapUnique<const TextDataset>(new TextDataset(std::move(files), context));
}

TextDataset::TextDataset(std::vector<FileContent> files, int64_t context)
    : files_(std::move(files)) {
  FingerprintStream fingerprint;
  starts_.push_back(0);
  for (const FileContent& file : files_) {
    const absl::string_view bytes = file.bytes();
    fingerprint.Add(bytes.data(), bytes.size());
    starts_.push_back(starts_.back() + static_cast<int64_t>(bytes.size()));
  }
  fingerprint_ = fingerprint.Finish();
  info_.examples = starts_.back();
  info_.context = context;
  info_.vocabulary = kByteValues;
  info_.classes = kByteValues;
}

absl::Status TextDataset::Read(absl::Span<const int64_t> indices, Batch& batch) const {
  batch.Clear();
  batch.examples = static_cast<int64_t>(indices.size());
  batch.labels.reserve(indices.size());
  batch.tokens.reserve(indices.size() * info_.context);
  for (const int64_t index : indices) {
    // The first byte of the context may lie in an earlier file than the label.
    const int64_t first = std::max<int64_t>(0, index - info_.context);
    batch.tokens.insert(batch.tokens.end(), info_.context - (index - first), -1);
    size_t file = std::upper_bound(starts_.begin(), starts_.end(), first) - starts_.begin() - 1;
    for (int64_t position = first; position <= index; ++file) {
      const absl::string_view bytes = files_[file].bytes();
      const int64_t end = std::min(index + 1, starts_[file + 1]);
      for (; position < end; ++position) {
        const auto token = static_cast<unsigned char>(bytes[position - starts_[file]]);
        (position < index ? batch.tokens : batch.labels).push_back(token);
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace muster
