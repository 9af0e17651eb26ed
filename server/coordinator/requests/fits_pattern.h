#ifndef MUSTER_SERVER_COORDINATOR_REQUESTS_FITS_PATTERN_H_
#define MUSTER_SERVER_COORDINATOR_REQUESTS_FITS_PATTERN_H_

#include "absl/strings/string_view.h"

namespace muster {

// Returns whether all of the text fits the pattern: `*` matches any characters or none, `?` any one
// character. Takes at most one step for each pair of their bytes.
bool FitsPattern(absl::string_view pattern, absl::string_view text);

}  // namespace muster

#endif  // MUSTER_SERVER_COORDINATOR_REQUESTS_FITS_PATTERN_H_
