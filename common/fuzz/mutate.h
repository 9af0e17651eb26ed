#ifndef MUSTER_COMMON_FUZZ_MUTATE_H_
#define MUSTER_COMMON_FUZZ_MUTATE_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace muster {

// Damages a seed in one to four places, as a function of `target` and `round` alone: bytes changed,
// cut out, doubled or put in, the end cut off. Bytes put in are often ones that mean something to a
// parser.
std::string Mutate(absl::string_view seed, absl::string_view target, uint64_t round);

}  // namespace muster

#endif  // MUSTER_COMMON_FUZZ_MUTATE_H_
