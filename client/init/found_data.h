#ifndef MUSTER_CLIENT_INIT_FOUND_DATA_H_
#define MUSTER_CLIENT_INIT_FOUND_DATA_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "client/init/csv_guess.h"

namespace muster {

// Kind of data at a path, judged by its beginning.
struct FoundData {
  enum class Kind { kText, kTokens, kTable, kImages, kLibsvm };
  Kind kind = Kind::kText;
  // The path; for tables possibly a pattern (common/files/path_pattern.h) that matches `files`
  // files.
  std::string path;
  size_t files = 1;
  // File of the images' labels.
  std::string labels;
  CsvGuess table;
  // Number of classes, for libsvm and images.
  uint32_t classes = 0;
  // True if libsvm's features count from 0.
  bool zero_based = false;
  // Rough number of examples; for text and tokens the number of bytes.
  uint64_t examples = 0;
};

// Looks at a file, a folder, or the first file of a pattern. `label` is as in GuessCsv. NotFound:
// there is no such path. InvalidArgument: Muster cannot read the data; the message says what it is
// and what to do.
absl::StatusOr<FoundData> LookAtData(const std::string& path, const std::string& label = "");

}  // namespace muster

#endif  // MUSTER_CLIENT_INIT_FOUND_DATA_H_
