#ifndef MUSTER_WORKER_C_ABI_ANSWER_H_
#define MUSTER_WORKER_C_ABI_ANSWER_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/base/catch_out_of_memory.h"

namespace muster {

// The message of this thread's last failed call of the library that this is linked into.
inline thread_local std::string last_error;

// Does `call`, which returns a status, so that no exception leaves the library. Returns the
// status's code, and keeps its message.
template <typename Call>
int Answer(Call call) {
  const absl::Status status = CatchOutOfMemory("the call", call);
  if (!status.ok()) last_error = std::string(status.message());
  return static_cast<int>(status.code());
}

// Checks that there is a `what` of this number.
inline absl::Status CheckNumber(absl::string_view what, int64_t number, int64_t count) {
  if (number >= 0 && number < count) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(what, " is ", number, "; there are ", count, ", counted from 0"));
}

}  // namespace muster

#endif  // MUSTER_WORKER_C_ABI_ANSWER_H_
