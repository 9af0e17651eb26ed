#include "common/chat_template/values/budget.h"

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"

namespace muster {
namespace {

constexpr size_t kBytesPerStep = 64;

}  // namespace

absl::Status Budget::Spend(size_t bytes) {
  const size_t more = bytes / kBytesPerStep + 1;
  if (more > static_cast<size_t>(limits_.max_steps - steps_)) {
    steps_ = limits_.max_steps;
    return absl::InvalidArgumentError(
        absl::StrCat("rendering takes more than ", limits_.max_steps,
                     " steps; shorten the chat, or the template's loops"));
  }
  steps_ += static_cast<int64_t>(more);
  return absl::OkStatus();
}

absl::Status Budget::CheckText(size_t bytes) const {
  if (bytes <= limits_.max_output_bytes) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("the text gets longer than ",
                                                 limits_.max_output_bytes,
                                                 " bytes; shorten the chat, or split it in two"));
}

absl::Status Budget::SpendText(size_t bytes) {
  MUSTER_RETURN_IF_ERROR(CheckText(bytes));
  return Spend(bytes);
}

absl::Status Budget::Nested::Check() const {
  if (budget_.depth_ <= budget_.limits_.max_depth) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("rendering goes more than ", budget_.limits_.max_depth,
                   " deep; do macros call themselves without an end?"));
}

}  // namespace muster
