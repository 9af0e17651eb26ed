#ifndef MUSTER_WORKER_RUNTIME_PROGRAM_PROGRAM_TASK_H_
#define MUSTER_WORKER_RUNTIME_PROGRAM_PROGRAM_TASK_H_

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/notification.h"
#include "common/base/clock.h"
#include "common/rpc/retry.h"
#include "common/rpc/tls_files.h"
#include "worker/collectives/endpoint.h"
#include "worker/runtime/coordinator_client/coordinator_client.h"

namespace muster {

namespace v1 {
class TaskOrder;
}  // namespace v1

// The collaborators of a task that runs a program. Everything outlives the task.
struct ProgramTaskDependencies {
  CoordinatorClient* coordinator = nullptr;
  const Clock* clock = nullptr;
  // Stopped when the program has ended, so that nothing waits for a coordinator that is away.
  Waiter* waiter = nullptr;
  // How the program's process may listen for the others: rank 0 at one of the ports, whoever makes
  // collective calls at another. The host is set.
  HostEndpointOptions endpoint;
  // The files of the daemon's certificate, if it has one.
  TlsFiles tls;
  // Notified when the program must end.
  const absl::Notification* stop = nullptr;
  // Called before the program starts: from then on, this task looks at `stop`.
  std::function<void()> starts;
  // Writes one line to the job's log, and the program's output.
  std::function<void(absl::string_view)> log;
  std::function<void(absl::string_view)> output;
};

// Runs one slot of a job whose model is a program: meets the other slots, unless a lost process is
// replaced alone, starts the program, and serves its calls until it has ended; then none of its
// processes is left. Blocks. REQUIRES: this process runs nothing else, and has no other children.
//
// OK: the program ended with status 0. Aborted: it ended otherwise (says how, with the last lines
// that it printed), or the task is fenced. InvalidArgument: it cannot be started. Cancelled: it was
// told to stop. ResourceExhausted: it took more memory than it may. DataLoss, with the loss noted:
// the checkpoint to go on from is damaged. NotFound: the job has ended. Internal: the system does
// not let it run. FailedPrecondition, ResourceExhausted, DataLoss, Unavailable: the folder that was
// shipped with it cannot be unpacked (ShippedFolder::Take).
absl::Status RunProgramTask(const v1::TaskOrder& order,
                            const ProgramTaskDependencies& dependencies);

}  // namespace muster

#endif  // MUSTER_WORKER_RUNTIME_PROGRAM_PROGRAM_TASK_H_
