#ifndef MUSTER_COMMON_MODEL_FILES_WEIGHT_FILES_H_
#define MUSTER_COMMON_MODEL_FILES_WEIGHT_FILES_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "common/files/output_file.h"
#include "common/safetensors/safetensors_writer.h"
#include "common/tensor/dtype.h"

namespace muster {

// Writes the weights of a model's folder: model.safetensors or, if that had more than `file_bytes`
// of tensors, files model-00001-of-00002.safetensors and so on, each with as many tensors as go
// into so many bytes but at least one, and model.safetensors.index.json, which says where each is.
// Not thread-safe.
class WeightFiles {
 public:
  // `tensors` says which tensors will come, in this order.
  WeightFiles(std::string folder, std::vector<SafetensorsWriter::Tensor> tensors, DType type,
              uint64_t file_bytes, Replace replace);

  // Appends the next tensor. Errors are SafetensorsWriter's, with the tensor's name those of values
  // that the type cannot hold. REQUIRES: as many values as its shape says.
  absl::Status Append(absl::Span<const float> values);

  // Writes the index, if there are several files. REQUIRES: all tensors were appended.
  absl::Status Finish();

  // Returns the names of all files, the index among them.
  std::set<std::string> names() const;

 private:
  std::string NameOf(size_t file) const;

  const std::string folder_;
  const std::vector<SafetensorsWriter::Tensor> tensors_;
  const DType type_;
  const Replace replace_;
  // The index of each file's first tensor, and the number of tensors.
  std::vector<size_t> begins_;
  uint64_t bytes_ = 0;
  // The next tensor, and the file that it goes to; null if it begins one.
  size_t next_ = 0;
  size_t file_ = 0;
  std::unique_ptr<SafetensorsWriter> writer_;
};

}  // namespace muster

#endif  // MUSTER_COMMON_MODEL_FILES_WEIGHT_FILES_H_
