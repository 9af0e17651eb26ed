#ifndef MUSTER_CLIENT_CHAOS_EXPORTED_WEIGHTS_H_
#define MUSTER_CLIENT_CHAOS_EXPORTED_WEIGHTS_H_

#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace muster {

// What a safetensors file holds, by name: the bytes of each tensor. Rows of sparse tables are put
// into ascending order of key, so that equal weights are equal whatever the order on disk.
// InvalidArgument: not such a file.
using ExportedWeights = std::map<std::string, std::string>;
absl::StatusOr<ExportedWeights> ParseWeights(absl::string_view safetensors);

}  // namespace muster

#endif  // MUSTER_CLIENT_CHAOS_EXPORTED_WEIGHTS_H_
