#ifndef MUSTER_COMMON_TEXT_NEAREST_NAME_H_
#define MUSTER_COMMON_TEXT_NEAREST_NAME_H_

#include <optional>
#include <string>
#include <string_view>

#include "absl/types/span.h"

namespace muster {

// Returns the name of `right` that somebody who typed `wrong` most likely meant, for "did you
// mean"; nothing if no name is near. Letters' case does not count, and '-' and '_' are the same.
//
// The nearest name is the one that takes the fewest edits: a character inserted, left out or
// replaced, or two neighbours exchanged ("lsit" is one edit from "list"). It is near if these are
// no more than a third of the characters of `wrong`, at least one. If no name is so near, the
// shortest name that begins with `wrong` (three characters or more) is meant. Of equally near
// names, the first is returned.
//
// Takes time in proportion to the squared length of each name about as long as `wrong`; others are
// passed over.
std::optional<std::string> NearestName(std::string_view wrong, absl::Span<const std::string> right);

}  // namespace muster

#endif  // MUSTER_COMMON_TEXT_NEAREST_NAME_H_
