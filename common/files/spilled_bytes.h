#ifndef MUSTER_COMMON_FILES_SPILLED_BYTES_H_
#define MUSTER_COMMON_FILES_SPILLED_BYTES_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "common/base/fingerprint.h"
#include "common/files/output_file.h"

namespace muster {

// Bytes of any number that are kept until the end of a command: in memory while they are few, then
// in a file that is gone when this object is (common/files/output_file.h, whose errors these are).
// Not thread-safe.
class SpilledBytes {
 public:
  // The file lies in the folder of `beside`.
  explicit SpilledBytes(std::string beside) : beside_(std::move(beside)) {}

  // Keeps the bytes in a file of OutputFile::OpenKept instead, of which the first `bytes` bytes are
  // there already. REQUIRES: nothing was appended.
  absl::Status KeepIn(std::unique_ptr<OutputFile> file, uint64_t bytes);

  // Makes all bytes durable in that file.
  absl::Status Flush();
  // Removes that file.
  void Remove() { file_->Remove(); }

  absl::Status Append(absl::string_view bytes);

  uint64_t size() const { return spilled_ + pending_.size(); }
  // Returns the Fingerprint of all bytes.
  uint64_t fingerprint() const { return fingerprint_.Finish(); }

  // Gives `take` all bytes in order, some at a time. The first error of `take` ends the call.
  absl::Status ForEach(absl::FunctionRef<absl::Status(absl::string_view bytes)> take) const;

 private:
  absl::Status WritePending();

  const std::string beside_;
  std::unique_ptr<OutputFile> file_;
  uint64_t spilled_ = 0;
  std::string pending_;
  FingerprintStream fingerprint_;
};

}  // namespace muster

#endif  // MUSTER_COMMON_FILES_SPILLED_BYTES_H_
