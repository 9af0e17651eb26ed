#ifndef MUSTER_CLIENT_INIT_LIBFFM_GUESS_H_
#define MUSTER_CLIENT_INIT_LIBFFM_GUESS_H_

#include <cstdint>
#include <optional>

#include "absl/strings/string_view.h"

namespace muster {

// Common properties of the lines of libffm data.
struct LibffmGuess {
  uint64_t records = 0;
  // The largest label; labels are whole numbers from -1.
  double largest_label = 0;
  // Each line has at most one feature of a field, with value 1.
  bool one_per_field = true;
};

// Returns nothing if a line is not `label field:feature:value ...`, or none has a feature. `text`
// ends with a whole line.
std::optional<LibffmGuess> GuessLibffm(absl::string_view text);

}  // namespace muster

#endif  // MUSTER_CLIENT_INIT_LIBFFM_GUESS_H_
