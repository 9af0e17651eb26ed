#ifndef MUSTER_COMMON_FILES_SPILLED_BYTES_H_
#define MUSTER_COMMON_FILES_SPILLED_BYTES_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "common/files/output_file.h"

namespace muster {

// Bytes of any number that are kept until the end of a command: in memory while they are few, then
// in a file that is gone when this object is (common/files/output_file.h, whose errors these are).
// Not thread-safe.
class SpilledBytes {
 public:
  // The file lies in the folder of `beside`.
  explicit SpilledBytes(std::string beside) : beside_(std::move(beside)) {}

  absl::Status Append(absl::string_view bytes);

  uint64_t size() const { return spilled_ + pending_.size(); }

  // Gives `take` all bytes in order, some at a time. The first error of `take` ends the call.
  absl::Status ForEach(absl::FunctionRef<absl::Status(absl::string_view bytes)> take) const;

 private:
  const std::string beside_;
  std::unique_ptr<OutputFile> file_;
  uint64_t spilled_ = 0;
  std::string pending_;
};

}  // namespace muster

#endif  // MUSTER_COMMON_FILES_SPILLED_BYTES_H_
