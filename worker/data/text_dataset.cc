#include "worker/data/text_dataset.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/base/fingerprint.h"
#include "common/base/status_macros.h"

namespace muster {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kByteValues = 256;

// Paths of the folder's regular files, and of links whose end is missing, in name order.
absl::StatusOr<std::vector<std::string>> FilesOf(const std::string& folder) {
  std::vector<std::string> paths;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    std::error_code unreadable;
    const fs::file_type type = entry->status(unreadable).type();
    // A link to nowhere is kept, for opening it to fail by name: leaving it out would train on
    // other data than the folder seems to hold.
    if (type == fs::file_type::regular || type == fs::file_type::not_found) {
      paths.push_back(entry->path().string());
    }
  }
  if (error) {
    return absl::ErrnoToStatus(error.value(), absl::StrCat("Listing data folder '", folder, "'"));
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

// The contents of these files, without empty ones and repetitions.
absl::StatusOr<std::vector<FileContent>> DistinctContents(const std::vector<std::string>& paths) {
  std::vector<FileContent> files;
  absl::flat_hash_map<uint64_t, std::vector<size_t>> by_fingerprint;
  for (const std::string& path : paths) {
    MUSTER_ASSIGN_OR_RETURN(FileContent file, FileContent::Open(path));
    if (file.bytes().empty()) continue;
    std::vector<size_t>& alike = by_fingerprint[Fingerprint(file.bytes())];
    if (std::any_of(alike.begin(), alike.end(),
                    [&](size_t f) { return files[f].bytes() == file.bytes(); })) {
      continue;
    }
    alike.push_back(files.size());
    files.push_back(std::move(file));
  }
  return files;
}

}  // namespace

absl::StatusOr<std::unique_ptr<const TextDataset>> TextDataset::Create(const std::string& path,
                                                                       int64_t context) {
  if (context < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("A text's context is ", context, " bytes; it must be at least 0"));
  }
  std::error_code error;
  std::vector<FileContent> files;
  if (fs::is_directory(path, error)) {
    MUSTER_ASSIGN_OR_RETURN(const std::vector<std::string> paths, FilesOf(path));
    MUSTER_ASSIGN_OR_RETURN(files, DistinctContents(paths));
    if (files.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat("Data folder '", path, "' has no regular file with content right inside it ",
                       "(subfolders are not searched); name the folder that holds the text files"));
    }
  } else {
    MUSTER_ASSIGN_OR_RETURN(FileContent file, OpenNonEmpty(path));
    files.push_back(std::move(file));
  }
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
    // The first byte wanted may lie in an earlier file than the label.
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
