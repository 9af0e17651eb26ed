#ifndef MUSTER_CLIENT_CHAOS_EXPORTED_WEIGHTS_H_
#define MUSTER_CLIENT_CHAOS_EXPORTED_WEIGHTS_H_

#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace muster {

// The bytes of each tensor of a safetensors file, by name. Rows of sparse tables are sorted by key,
// so that equal weights compare equal whatever the order in the file. InvalidArgument: not such a
// file.
using ExportedWeights = std::map<std::string, std::string>;
absl::StatusOr<ExportedWeights> ParseWeights(absl::string_view safetensors);

// Returns the mean difference between the weights of two models; infinity if they do not have the
// same weights, with the same keys of rows. Single weights may be far apart where rounding is
// amplified, as it is in the first steps of a row's optimizer.
double MeanApart(const ExportedWeights& a, const ExportedWeights& b);

}  // namespace muster

#endif  // MUSTER_CLIENT_CHAOS_EXPORTED_WEIGHTS_H_
