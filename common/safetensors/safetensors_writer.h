#ifndef MUSTER_COMMON_SAFETENSORS_SAFETENSORS_WRITER_H_
#define MUSTER_COMMON_SAFETENSORS_SAFETENSORS_WRITER_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/files/output_file.h"
#include "common/tensor/dtype.h"

namespace muster {

// Writes a safetensors file as a stream, of tensors of one type. The file gets its name when it is
// complete (common/files/output_file.h). Not thread-safe.
class SafetensorsWriter {
 public:
  struct Tensor {
    std::string name;
    std::vector<int64_t> shape;
  };

  // `tensors` says which tensors will come, in this order and with unique names, and `type` is
  // kF32, kBf16 or kF16. Errors are those of OutputFile.
  static absl::StatusOr<std::unique_ptr<SafetensorsWriter>> Create(
      const std::string& path, const std::vector<Tensor>& tensors,
      const std::map<std::string, std::string>& metadata, DType type = DType::kF32,
      Replace replace = Replace::kNever);

  // Appends the next elements of the tensors, row-major, any number at a time. They are rounded to
  // the type, to the nearest.
  void Append(absl::Span<const float> values);

  // FailedPrecondition: the number of elements is not the announced one. Other errors are those of
  // OutputFile.
  absl::Status Finish();

 private:
  SafetensorsWriter(std::string path, DType type, std::unique_ptr<OutputFile> file,
                    uint64_t elements);

  const std::string path_;
  const DType type_;
  const std::unique_ptr<OutputFile> file_;
  // Error of the first write that failed.
  absl::Status status_;
  // Elements that are still to come.
  int64_t left_;
};

}  // namespace muster

#endif  // MUSTER_COMMON_SAFETENSORS_SAFETENSORS_WRITER_H_
