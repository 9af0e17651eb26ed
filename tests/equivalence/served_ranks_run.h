#ifndef MUSTER_TESTS_EQUIVALENCE_SERVED_RANKS_RUN_H_
#define MUSTER_TESTS_EQUIVALENCE_SERVED_RANKS_RUN_H_

#include "proto/job.pb.h"
#include "tests/equivalence/run_options.h"
#include "worker/runtime/training/prepared_job.h"

namespace muster {

// Trains a job on servers whose model several ranks compute together, as TrainOnServers does
// (training_run.h).
RunResult TrainServedRanks(const v1::JobSpec& spec, const RunOptions& options, PreparedJob job);

}  // namespace muster

#endif  // MUSTER_TESTS_EQUIVALENCE_SERVED_RANKS_RUN_H_
