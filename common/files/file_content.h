#ifndef MUSTER_COMMON_FILES_FILE_CONTENT_H_
#define MUSTER_COMMON_FILES_FILE_CONTENT_H_

#include <cstddef>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace muster {

struct FileContentOptions {
  // Files of at least this size are mapped, so that the tasks of one machine share their pages and
  // start before they are read. Smaller ones are copied, so that a change of the file cannot touch
  // a running job. A mapped file must not be cut short while it is open: the system ends a process
  // that reads past its new end.
  size_t map_from_bytes = size_t{64} << 20;
  // The file's name comes from a job, a request or another file, or from this program, which may
  // keep files outside of the roots that it is confined to (common/files/file_roots.h).
  enum class NamedBy { kOthers, kThisProgram };
  NamedBy named_by = NamedBy::kOthers;
};

// All bytes of a regular file, read only. Movable; the bytes stay where they are while it moves
// only if it is mapped, so take bytes() after the last move. Thread-safe once made.
class FileContent {
 public:
  // Opens a file. NotFound: none is at `path`. InvalidArgument: `path` is empty or no regular file.
  // PermissionDenied, Internal: the system could not read it. Every message names the path.
  static absl::StatusOr<FileContent> Open(const std::string& path,
                                          const FileContentOptions& options = {});

  FileContent(FileContent&& other) noexcept;
  FileContent& operator=(FileContent&& other) noexcept;
  ~FileContent();

  absl::string_view bytes() const;

 private:
  FileContent() = default;

  std::string copy_;
  // Set only if the file is mapped.
  void* map_ = nullptr;
  size_t map_bytes_ = 0;
};

// Opens a file likewise; InvalidArgument also for one without any bytes, which no reader can use.
absl::StatusOr<FileContent> OpenNonEmpty(const std::string& path);

}  // namespace muster

#endif  // MUSTER_COMMON_FILES_FILE_CONTENT_H_
