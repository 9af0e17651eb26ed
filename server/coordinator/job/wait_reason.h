#ifndef MUSTER_SERVER_COORDINATOR_JOB_WAIT_REASON_H_
#define MUSTER_SERVER_COORDINATOR_JOB_WAIT_REASON_H_

#include "absl/strings/string_view.h"

namespace muster {

// Kinds of what a job waits for; Job::waiting_for says it in words.
enum class WaitReason {
  kNothing,
  // Free slots, devices or memory.
  kResources,
  // A job that comes first, and for which resources are kept free.
  kEarlierJob,
  // A pause after failures.
  kPause,
  // A server that has the job's state in its log.
  kServer,
  // Tasks that start, do not move, or cannot reach something.
  kTasks,
  // A checkpoint that cannot be written yet.
  kCheckpoint,
};

// Returns the name that metrics show: letters and underscores.
constexpr absl::string_view NameOf(WaitReason reason) {
  switch (reason) {
    case WaitReason::kNothing:
      return "nothing";
    case WaitReason::kResources:
      return "resources";
    case WaitReason::kEarlierJob:
      return "earlier_job";
    case WaitReason::kPause:
      return "pause";
    case WaitReason::kServer:
      return "server";
    case WaitReason::kTasks:
      return "tasks";
    case WaitReason::kCheckpoint:
      return "checkpoint";
  }
  return "";
}

}  // namespace muster

#endif  // MUSTER_SERVER_COORDINATOR_JOB_WAIT_REASON_H_
