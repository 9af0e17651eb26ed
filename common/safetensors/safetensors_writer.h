#ifndef MUSTER_COMMON_SAFETENSORS_SAFETENSORS_WRITER_H_
#define MUSTER_COMMON_SAFETENSORS_SAFETENSORS_WRITER_H_

#include <cstdint>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace muster {

// Writes a safetensors file of F32 tensors as a stream. It appears under its name when it is
// complete: until then it is PATH.partial, which is removed if this object goes without Finish. Not
// thread-safe.
class SafetensorsWriter {
 public:
  struct Tensor {
    std::string name;
    std::vector<int64_t> shape;
  };

  // `tensors` says what will come, in this order, under names of their own. FailedPrecondition: the
  // file cannot be written.
  static absl::StatusOr<std::unique_ptr<SafetensorsWriter>> Create(
      const std::string& path, const std::vector<Tensor>& tensors,
      const std::map<std::string, std::string>& metadata);
  ~SafetensorsWriter();

  SafetensorsWriter(const SafetensorsWriter&) = delete;
  SafetensorsWriter& operator=(const SafetensorsWriter&) = delete;

  // The next elements of the tensors, row-major; any number at a time.
  void Append(absl::Span<const float> values);

  // ResourceExhausted: not all could be written. FailedPrecondition: other than the announced
  // number of elements came, or the file could not get its name.
  absl::Status Finish();

 private:
  SafetensorsWriter(std::string path, uint64_t elements);

  const std::string path_;
  const std::string partial_;
  std::ofstream file_;
  // Elements that are still to come.
  int64_t left_;
  bool finished_ = false;
};

}  // namespace muster

#endif  // MUSTER_COMMON_SAFETENSORS_SAFETENSORS_WRITER_H_
