#ifndef MUSTER_COMMON_BASE_CATCH_OUT_OF_MEMORY_H_
#define MUSTER_COMMON_BASE_CATCH_OUT_OF_MEMORY_H_

#include <new>
#include <stdexcept>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace muster {

// The answer of `work`, which returns a Status or StatusOr. RESOURCE_EXHAUSTED where memory could
// not be had in it; names `what`. For the edges where requests and files of others come in, so that
// a size of theirs ends the request and not the process; what `work` had made is gone by then.
// Needs no memory itself. What outlives `work` must bear that an insertion fails: the standard
// library's containers do. Abseil's hash tables do not, and are not even to be destroyed
// afterwards.
template <typename Work>
auto CatchOutOfMemory(absl::string_view what, Work&& work) -> decltype(work()) {
  const auto exhausted = [what] {
    try {
      return absl::ResourceExhaustedError(
          absl::StrCat(what,
                       " needs more memory than this process can have; use less of it at a "
                       "time, or give the process more"));
    } catch (const std::bad_alloc&) {
      // There is not even memory for a message. An error without one takes none.
      return absl::Status(absl::StatusCode::kResourceExhausted, "");
    }
  };
  try {
    return std::forward<Work>(work)();
  } catch (const std::bad_alloc&) {
    return exhausted();
  } catch (const std::length_error&) {
    // A container asked for more than there are addresses.
    return exhausted();
  }
}

}  // namespace muster

#endif  // MUSTER_COMMON_BASE_CATCH_OUT_OF_MEMORY_H_
