#ifndef MUSTER_TESTS_EQUIVALENCE_TRAINING_RUN_H_
#define MUSTER_TESTS_EQUIVALENCE_TRAINING_RUN_H_

#include <string>
#include <vector>

#include "proto/job.pb.h"
#include "tests/equivalence/run_options.h"

namespace muster {

// Fails the test unless both have the same keys, and ‖a − b‖₂ ≤ tolerance · ‖b‖₂ for every tensor
// and table.
void ExpectClose(const TrainedValues& actual, const TrainedValues& expected, double tolerance);

// Trains the job as one worker without servers, on the joined batch; its sparse tables are read
// whole. Of the options only the observer, the adjustments and the plan count. Fails the test on
// any error.
RunResult TrainAlone(v1::JobSpec spec, const RunOptions& options);

// The same in one micro-batch. `curve`, where given, gets the job's evaluations; `log`, where
// given, its lines.
TrainedValues TrainLocally(v1::JobSpec spec, LossCurve* curve = nullptr,
                           std::vector<std::string>* log = nullptr);

// Trains the job on engines of the parameter server in this process, its slots as threads. Fails
// the test on any error.
RunResult TrainOnServers(const v1::JobSpec& spec, const RunOptions& options);

// Trains the job by all-reduce, its slots as threads; its sparse tables as the job says. Fails the
// test on any error but those of tasks that are to die, and of their peers for it.
RunResult TrainByAllReduce(const v1::JobSpec& spec, const RunOptions& options);

}  // namespace muster

#endif  // MUSTER_TESTS_EQUIVALENCE_TRAINING_RUN_H_
