#ifndef MUSTER_COMMON_FILES_OUTPUT_FILE_H_
#define MUSTER_COMMON_FILES_OUTPUT_FILE_H_

#include <sys/types.h>

#include <cstddef>
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

// A file that a command writes under a name of its user's choice. It has no name until it is
// complete, so nothing is left of it if this object, or the process, ends before. Not thread-safe.
// Errors name the path: OutputTarget's, or FileError's (common/files/file_error.h).
class OutputFile {
 public:
  static absl::StatusOr<std::unique_ptr<OutputFile>> Create(const std::string& path,
                                                            Replace replace);
  // Does the same with a file that has a name from the start, NAME.RANDOM.partial beside the
  // other: for file systems that have no files without names, such as NFS. The destructor removes
  // it, but a process that is killed leaves it behind.
  static absl::StatusOr<std::unique_ptr<OutputFile>> CreateNamed(const std::string& path,
                                                                 Replace replace);
  // Opens PATH.partial beside the other, and makes it if it is not there. It stays when this object
  // or its process ends before it is published, so that another one goes on with it, unless Remove
  // is called. FailedPrecondition: a process writes it now, or it is another user's.
  static absl::StatusOr<std::unique_ptr<OutputFile>> OpenKept(const std::string& path,
                                                              Replace replace);
  ~OutputFile();

  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  // Appends bytes.
  absl::Status Write(absl::string_view bytes);

  // Replaces bytes that were written before.
  absl::Status WriteAt(int64_t offset, absl::string_view bytes);

  // Reads bytes of a kept file. DataLoss: it has fewer.
  absl::StatusOr<std::string> ReadAt(int64_t offset, size_t bytes) const;

  // Leaves the first `bytes` bytes of a kept file, after which Write appends. DataLoss: it has
  // fewer.
  absl::Status Shorten(uint64_t bytes);

  // Makes what was written durable.
  absl::Status Sync();

  // Makes the file durable and gives it its name. InvalidArgument: that name was taken meanwhile.
  absl::Status Publish();

  // Removes a kept file that is not published.
  void Remove();

  // Returns the path by which this process opens the file until it is published.
  std::string partial() const;

 private:
  OutputFile(std::string path, Replace replace, int file, std::string partial);

  // Gives the file the permissions of the one that it will replace.
  absl::Status TakePermissions();

  const std::string path_;
  const Replace replace_;
  int file_;
  // The file's name until it is published; empty: it has none.
  std::string partial_;
  bool kept_ = false;
};

// Refuses now what WriteOutputFile would refuse after hours of work, also a place where nothing can
// be written.
absl::Status CheckOutputFile(const std::string& path, Replace replace);

// Writes a whole file by an OutputFile.
absl::Status WriteOutputFile(const std::string& path, Replace replace, absl::string_view bytes);

}  // namespace muster

#endif  // MUSTER_COMMON_FILES_OUTPUT_FILE_H_
