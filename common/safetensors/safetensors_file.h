#ifndef MUSTER_COMMON_SAFETENSORS_SAFETENSORS_FILE_H_
#define MUSTER_COMMON_SAFETENSORS_SAFETENSORS_FILE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "common/files/file_content.h"

namespace muster {

// A tensor of a safetensors file. Borrows the file's bytes.
struct SafetensorsTensor {
  // The format's name of the type: "F32", "BF16", "U64", …
  std::string dtype;
  std::vector<int64_t> shape;
  // Row-major, little-endian.
  absl::string_view bytes;

  int64_t elements() const;
};

// A file in the safetensors format: a little-endian u64 length, a JSON object of that length with
// the type, shape and place of each tensor, then the tensors' bytes. Mapped if large. Immutable, so
// thread-safe.
class SafetensorsFile {
 public:
  // NotFound: there is no such file. InvalidArgument: the file is not in this format, or a tensor
  // lies outside the file or has another length than its shape says. All name the path.
  static absl::StatusOr<std::unique_ptr<const SafetensorsFile>> Open(const std::string& path);

  const std::string& path() const { return path_; }
  const std::map<std::string, SafetensorsTensor>& tensors() const { return tensors_; }
  // Metadata by name, which belong to no tensor.
  const std::map<std::string, std::string>& metadata() const { return metadata_; }

 private:
  SafetensorsFile(std::string path, FileContent content);

  absl::Status Parse();

  const std::string path_;
  const FileContent content_;
  // Const after Open.
  std::map<std::string, SafetensorsTensor> tensors_;
  std::map<std::string, std::string> metadata_;
};

// Copies elements [first, first + out.size()) of an F32, F16 or BF16 tensor as f32. `name` is for
// messages. InvalidArgument: the tensor has another type. REQUIRES: the range lies in the tensor.
absl::Status ReadAsFloats(const SafetensorsTensor& tensor, absl::string_view name, int64_t first,
                          absl::Span<float> out);

}  // namespace muster

#endif  // MUSTER_COMMON_SAFETENSORS_SAFETENSORS_FILE_H_
