#ifndef MUSTER_COMMON_FILES_OUTPUT_FILE_H_
#define MUSTER_COMMON_FILES_OUTPUT_FILE_H_

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace muster {

// A command's treatment of a file that has the name of its output already. The command cannot tell
// whether it made that file, so it replaces none unless its user says --force.
enum class Replace { kNever, kFiles };

// Returns where a file has to be put so that `path` names it: `path`, or what a link there leads
// to, so that the link stays. InvalidArgument: there is a file that `replace` does not allow to
// replace, or something that is never replaced (a folder, a device, a pipe).
absl::StatusOr<std::string> OutputTarget(const std::string& path, Replace replace);

// A file that a command writes under a name of its user's choice. It appears under that name when
// it is complete: until then it lies beside it as NAME.RANDOM.partial, which is removed with this
// object unless it was published. Not thread-safe. Errors name the path: OutputTarget's, or
// FileError's (common/files/file_error.h).
class OutputFile {
 public:
  static absl::StatusOr<std::unique_ptr<OutputFile>> Create(const std::string& path,
                                                            Replace replace);
  ~OutputFile();

  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  // Appends bytes.
  absl::Status Write(absl::string_view bytes);

  // Replaces bytes that were written before.
  absl::Status WriteAt(int64_t offset, absl::string_view bytes);

  // Makes the file durable and gives it its name. InvalidArgument: that name was taken meanwhile.
  absl::Status Publish();

  // The file's path until it is published.
  const std::string& partial() const { return partial_; }

 private:
  OutputFile(std::string path, Replace replace);

  // Makes the partial file; `mode` are the permissions of the file that it will replace.
  absl::Status Open(mode_t mode);

  const std::string path_;
  const Replace replace_;
  std::string partial_;
  int file_ = -1;
};

// Refuses now what WriteOutputFile would refuse after hours of work, also a place where nothing can
// be written.
absl::Status CheckOutputFile(const std::string& path, Replace replace);

// Writes a whole file by an OutputFile.
absl::Status WriteOutputFile(const std::string& path, Replace replace, absl::string_view bytes);

}  // namespace muster

#endif  // MUSTER_COMMON_FILES_OUTPUT_FILE_H_
