#ifndef MUSTER_SERVER_COORDINATOR_OUT_OF_MEMORY_H_
#define MUSTER_SERVER_COORDINATOR_OUT_OF_MEMORY_H_

#include <new>

#include "absl/status/status.h"

namespace muster {

// Runs `work` for one caller, and makes memory that is not to be had an error of that caller. Only
// for work that leaves nothing half changed: reading, checking and answering. What changes jobs is
// small, and where no memory is left for that the process ends and goes on from its store.
template <typename Work>
auto AnswerOutOfMemory(Work&& work) -> decltype(work()) {
  try {
    return work();
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError(
        "the coordinator has too little memory for this call; try again later, or ask for less");
  }
}

}  // namespace muster

#endif  // MUSTER_SERVER_COORDINATOR_OUT_OF_MEMORY_H_
