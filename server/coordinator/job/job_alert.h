#ifndef MUSTER_SERVER_COORDINATOR_JOB_JOB_ALERT_H_
#define MUSTER_SERVER_COORDINATOR_JOB_JOB_ALERT_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace muster {

// Something about a job that its user may want to hear of at once.
struct JobAlert {
  enum class Kind {
    kSucceeded,
    kFailed,
    kCancelled,
    // A task that did not move was ended; the job goes on.
    kStalled,
    // A program reported a loss that is not a finite number, the first after a finite one. (A model
    // of Muster's fails then.)
    kNotFinite,
    // The job has left a worker and takes no slot of it again; the job goes on.
    kLeftWorker,
  };

  Kind kind = Kind::kFailed;
  std::string job_id;
  std::string name;
  std::string owner;
  uint64_t step = 0;
  // Says what happened, for people.
  std::string text;
};

// Returns the kind's name as users see it, such as "not_finite".
constexpr absl::string_view NameOf(JobAlert::Kind kind) {
  switch (kind) {
    case JobAlert::Kind::kSucceeded:
      return "succeeded";
    case JobAlert::Kind::kFailed:
      return "failed";
    case JobAlert::Kind::kCancelled:
      return "cancelled";
    case JobAlert::Kind::kStalled:
      return "stalled";
    case JobAlert::Kind::kNotFinite:
      return "not_finite";
    case JobAlert::Kind::kLeftWorker:
      return "left_worker";
  }
  return "";
}

}  // namespace muster

#endif  // MUSTER_SERVER_COORDINATOR_JOB_JOB_ALERT_H_
