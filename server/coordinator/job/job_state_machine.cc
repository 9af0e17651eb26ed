#include "server/coordinator/job/job_state_machine.h"

#include "absl/strings/str_cat.h"

namespace muster {
namespace {

struct Transition {
  v1::JobState from;
  v1::JobState to;
};

constexpr Transition kAllowed[] = {
    {v1::PENDING, v1::PLACING},      {v1::PENDING, v1::FAILED},     {v1::PENDING, v1::CANCELLED},
    {v1::PLACING, v1::RUNNING},      {v1::PLACING, v1::RECOVERING}, {v1::PLACING, v1::FAILED},
    {v1::PLACING, v1::CANCELLED},    {v1::RUNNING, v1::RECOVERING}, {v1::RUNNING, v1::SUCCEEDED},
    {v1::RUNNING, v1::FAILED},       {v1::RUNNING, v1::CANCELLED},  {v1::RECOVERING, v1::RUNNING},
    {v1::RECOVERING, v1::SUCCEEDED}, {v1::RECOVERING, v1::FAILED},  {v1::RECOVERING, v1::CANCELLED},
};

}  // namespace

absl::Status CheckTransition(absl::string_view job_id, v1::JobState from, v1::JobState to) {
  for (const Transition& allowed : kAllowed) {
    if (allowed.from == from && allowed.to == to) return absl::OkStatus();
  }
  return absl::FailedPreconditionError(absl::StrCat(
      "job ", job_id, " cannot go from ", v1::JobState_Name(from), " to ", v1::JobState_Name(to)));
}

bool IsFinal(v1::JobState state) {
  return state == v1::SUCCEEDED || state == v1::FAILED || state == v1::CANCELLED;
}

bool IsActive(v1::JobState state) {
  return state == v1::PLACING || state == v1::RUNNING || state == v1::RECOVERING;
}

}  // namespace muster
