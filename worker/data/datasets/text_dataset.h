#ifndef MUSTER_WORKER_DATA_DATASETS_TEXT_DATASET_H_
#define MUSTER_WORKER_DATA_DATASETS_TEXT_DATASET_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/files/file_content.h"
#include "worker/data/batch.h"
#include "worker/data/dataset.h"

namespace muster {

// One example per byte of text: example i has byte i as its label and the `context` bytes before it
// as its tokens, oldest first, with -1 before the start of the data. The vocabulary is 256.
//
// A folder is read as one text: its files in the order of ForEachTextFile
// (common/files/text_files.h).
class TextDataset : public Dataset {
 public:
  // `path` is a file or a folder. NotFound: `path`, or the target of a link in the folder, does not
  // exist. InvalidArgument: there are no bytes, `path` is neither file nor folder, a file is no
  // text (common/files/check_is_text.h), or `context` is negative. PermissionDenied, Internal: a
  // file cannot be read.
  static absl::StatusOr<std::unique_ptr<const TextDataset>> Create(const std::string& path,
                                                                   int64_t context);

  const DatasetInfo& info() const override { return info_; }
  uint64_t fingerprint() const override { return fingerprint_; }
  absl::Status Read(absl::Span<const int64_t> indices, Batch& batch) const override;

 private:
  TextDataset(std::vector<FileContent> files, int64_t context);

  // All const after construction. File f holds the examples [starts_[f], starts_[f + 1]).
  const std::vector<FileContent> files_;
  std::vector<int64_t> starts_;
  DatasetInfo info_;
  uint64_t fingerprint_;
};

}  // namespace muster

#endif  // MUSTER_WORKER_DATA_DATASETS_TEXT_DATASET_H_
