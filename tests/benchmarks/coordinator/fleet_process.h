#ifndef MUSTER_TESTS_BENCHMARKS_COORDINATOR_FLEET_PROCESS_H_
#define MUSTER_TESTS_BENCHMARKS_COORDINATOR_FLEET_PROCESS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "tests/benchmarks/coordinator/fleet.h"
#include "tests/benchmarks/coordinator/simulated_daemon.h"
#include "tests/benchmarks/harness/child_process.h"

namespace muster {

// Runs simulated daemons in this process as lines on standard input say, until it ends. For
// FleetProcesses alone.
[[noreturn]] void RunFleetProcess();

// The simulated daemons of a cluster, dealt to several processes. Not thread-safe. Errors are those
// of the processes: they name the call that failed.
class FleetProcesses {
 public:
  struct Options {
    std::string coordinator;
    int processes = 1;
    int workers = 0;
    int servers = 0;
  };
  // Starts the processes, not yet the daemons.
  static absl::StatusOr<std::unique_ptr<FleetProcesses>> Start(const Options& options);

  // Starts the daemons, which register.
  absl::Status StartDaemons();
  // Forgets all events so far.
  absl::Status Mark();
  // Blocks until all workers have had the event since the mark; with kAnswered, all daemons.
  // Returns the time of the last, of SharedNanoseconds.
  absl::StatusOr<int64_t> Await(FleetEvent event, absl::Duration timeout);
  absl::Status SetReporting(bool reports);
  // Has all tasks leave their round with replicas at the present step, except that the worker with
  // number `replaced` is replaced by another process of its id; -1: none is.
  absl::Status MeetAgain(int replaced);

  struct Totals {
    uint64_t heartbeats = 0;
    uint64_t progress_reports = 0;
    uint64_t errors = 0;
    double cpu_seconds = 0;
  };
  absl::StatusOr<Totals> Count();

 private:
  struct Share {
    std::unique_ptr<ChildProcess> process;
    int workers = 0;
    int servers = 0;
  };

  FleetProcesses() = default;
  absl::Status TellAll(const std::string& line);

  std::vector<Share> shares_;
};

}  // namespace muster

#endif  // MUSTER_TESTS_BENCHMARKS_COORDINATOR_FLEET_PROCESS_H_
