#include "common/plan/calls/step_calls.h"

#include "absl/strings/str_cat.h"

namespace muster {

std::string TextOf(const StepCall& call) {
  return call.index < 0 ? std::string(call.name) : absl::StrCat(call.name, " ", call.index);
}

}  // namespace muster
