#ifndef MUSTER_COMMON_BASE_CATCH_OUT_OF_MEMORY_H_
#define MUSTER_COMMON_BASE_CATCH_OUT_OF_MEMORY_H_

#include <new>
#include <stdexcept>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace muster {

// Returns what `work` returns, a Status or StatusOr, or RESOURCE_EXHAUSTED, naming `what`, if an
// allocation in `work` failed. For the edges where requests and files of others come in, so that
// one of their sizes ends the request and not the process; what `work` had made is gone by then.
// Needs no memory itself. Whatever outlives `work` must tolerate that an insertion fails: the
// standard library's containers do. Abseil's hash tables do not, and must not even be destroyed
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
      // There is no memory even for a message. An error without one needs none.
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
