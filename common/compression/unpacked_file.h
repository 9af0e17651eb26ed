#ifndef MUSTER_COMMON_COMPRESSION_UNPACKED_FILE_H_
#define MUSTER_COMMON_COMPRESSION_UNPACKED_FILE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "common/compression/unpack_stream.h"

namespace muster {

// The content of a regular file from its beginning to its end; one that is compressed by gzip or
// Zstandard is unpacked, whatever its name is. Memory does not grow with the file. Not thread-safe.
class UnpackedFile {
 public:
  // Errors are OpenRegularFile's (common/files/open_regular_file.h).
  static absl::StatusOr<std::unique_ptr<UnpackedFile>> Open(const std::string& path);
  ~UnpackedFile();

  UnpackedFile(const UnpackedFile&) = delete;
  UnpackedFile& operator=(const UnpackedFile&) = delete;

  bool packed() const { return stream_ != nullptr; }

  // Reads the next bytes and returns how many there were: fewer than there is room for only at the
  // end. DataLoss: the compressed file is damaged or ends early. Other errors: it could not be
  // read. Every message names the path.
  absl::StatusOr<size_t> Read(absl::Span<char> bytes);

  // Returns how much of the file has been read, and its size, both as it lies on the disk.
  uint64_t bytes_read() const { return read_; }
  uint64_t size() const { return size_; }

 private:
  UnpackedFile(std::string path, int descriptor, uint64_t size);

  // Reads the file's next bytes into buffer_.
  absl::Status Fill();

  const std::string path_;
  const int descriptor_;
  const uint64_t size_;
  uint64_t read_ = 0;
  std::string buffer_;
  // This is left of buffer_.
  absl::string_view rest_;
  bool ended_ = false;
  // Null: the file is not compressed.
  std::unique_ptr<UnpackStream> stream_;
};

}  // namespace muster

#endif  // MUSTER_COMMON_COMPRESSION_UNPACKED_FILE_H_
