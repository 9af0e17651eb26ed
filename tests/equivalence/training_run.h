#ifndef MUSTER_TESTS_EQUIVALENCE_TRAINING_RUN_H_
#define MUSTER_TESTS_EQUIVALENCE_TRAINING_RUN_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "proto/job.pb.h"
#include "worker/strategy/strategy.h"

namespace muster {

// What a job's training came to: every tensor by name, and every sparse table as one array of rows
// in order of key
// (`NAME.keys` are those keys).
struct TrainedValues {
  std::map<std::string, std::vector<float>> values;
  std::map<std::string, std::vector<uint64_t>> keys;
};

// Trains the job in one process on the joined batch, whatever its number of workers. Fails the test
// on any error.
TrainedValues TrainLocally(v1::JobSpec spec);

// A task that ends without a word.
struct Death {
  uint32_t slot = 0;
  // How many of its strategy's hooks the task gets to call.
  int hooks = 0;
  // Whether the last of these still takes effect.
  bool takes_effect = false;
};

struct ServerRunOptions {
  // Engines that the job's partitions are dealt to.
  int servers = 2;
  // Rows to read at the end, by table; a table that is not named is left out.
  std::map<std::string, std::vector<uint64_t>> keys;
  // Each in turn ends the task that holds its slot; the slot is taken over at once under the next
  // incarnation.
  std::vector<Death> deaths;
};

struct ServerRun {
  // As slot 0 reads them at the end.
  TrainedValues trained;
  // By slot, of its last task.
  std::vector<StrategyCounters> counters;
  // Held-out examples of the last evaluation, and how many were classified right.
  uint64_t evaluated = 0;
  uint64_t correct = 0;
};

// Trains the job on engines of the parameter server in this process, its slots as threads. Fails
// the test on any error.
ServerRun TrainOnServers(const v1::JobSpec& spec, const ServerRunOptions& options);

}  // namespace muster

#endif  // MUSTER_TESTS_EQUIVALENCE_TRAINING_RUN_H_
