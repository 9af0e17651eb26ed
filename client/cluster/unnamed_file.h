#ifndef MUSTER_CLIENT_CLUSTER_UNNAMED_FILE_H_
#define MUSTER_CLIENT_CLUSTER_UNNAMED_FILE_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace muster {

// A file in the folder for temporary files that has no name. A program that this process starts
// or that takes its place (spawn.h) inherits it, and nothing is left behind, however that ends. Not
// thread-safe.
class UnnamedFile {
 public:
  // `what` is what the file will hold, in errors, such as "the weights".
  static absl::StatusOr<std::unique_ptr<UnnamedFile>> Create(const std::string& what);
  ~UnnamedFile();

  UnnamedFile(const UnnamedFile&) = delete;
  UnnamedFile& operator=(const UnnamedFile&) = delete;

  // Appends bytes.
  absl::Status Write(absl::string_view bytes);

  // Returns all that the file holds, whoever wrote it.
  absl::StatusOr<std::string> Read() const;

  // Returns the path by which this process, and a program that it starts or that takes its place,
  // opens the file.
  std::string path() const;

 private:
  UnnamedFile(const std::string& what, const std::string& folder, int descriptor)
      : what_(what), folder_(folder), descriptor_(descriptor) {}

  const std::string what_;
  const std::string folder_;
  const int descriptor_;
};

}  // namespace muster

#endif  // MUSTER_CLIENT_CLUSTER_UNNAMED_FILE_H_
