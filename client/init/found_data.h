#ifndef MUSTER_CLIENT_INIT_FOUND_DATA_H_
#define MUSTER_CLIENT_INIT_FOUND_DATA_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "client/init/csv_guess.h"

namespace muster {

// What lies at a path, as far as its beginning tells.
struct FoundData {
  enum class Kind { kText, kTokens, kTable, kImages, kLibsvm };
  Kind kind = Kind::kText;
  // Of tables it may be a pattern (common/files/path_pattern.h) of so many files.
  std::string path;
  size_t files = 1;
  // Of images.
  std::string labels;
  CsvGuess table;
  // Of libsvm and images.
  uint32_t classes = 0;
  // Whether libsvm's features count from 0.
  bool zero_based = false;
  // About how many; of text and tokens bytes.
  uint64_t examples = 0;
};

// Looks at a file, a folder, or the first of a pattern's files. NotFound: nothing is there.
// InvalidArgument: it is nothing that Muster reads, which the message names, with what to do.
absl::StatusOr<FoundData> LookAtData(const std::string& path);

}  // namespace muster

#endif  // MUSTER_CLIENT_INIT_FOUND_DATA_H_
