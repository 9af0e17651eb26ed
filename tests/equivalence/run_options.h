#ifndef MUSTER_TESTS_EQUIVALENCE_RUN_OPTIONS_H_
#define MUSTER_TESTS_EQUIVALENCE_RUN_OPTIONS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "common/job/adjustments.h"
#include "common/partition/unit_pulls.h"
#include "common/step/stage_shape.h"
#include "proto/task_service.pb.h"
#include "tests/equivalence/dying_strategy.h"
#include "tests/equivalence/in_process_servers.h"
#include "tests/equivalence/run_checkpoints.h"
#include "tests/equivalence/step_observer.h"
#include "worker/collectives/flight_recorder.h"
#include "worker/strategy/strategy.h"

namespace muster {

// The result of a job's training: every tensor by name, and every sparse table as one array of rows
// in order of key (`keys` has those keys).
struct TrainedValues {
  std::map<std::string, std::vector<float>> values;
  std::map<std::string, std::vector<uint64_t>> keys;
};

// Mean held-out loss by the clock of the evaluation.
using LossCurve = std::map<uint64_t, double>;

struct RunOptions {
  // Engines that the job's partitions are dealt to, where it uses any, and how tasks reach them.
  int servers = 2;
  Reach reach = Reach::kCalls;
  // Rows to read at the end, by table; a table that is not named is left out.
  std::map<std::string, std::vector<uint64_t>> keys;
  // Each in turn ends the task that holds its slot; the slot is taken over at once under the next
  // incarnation. The test fails if the task never makes the call at which it is to die.
  std::vector<Death> deaths;
  // Where the run keeps its checkpoints; null: a folder of its own.
  RunCheckpoints* checkpoints = nullptr;
  // Clock of the checkpoint there that the run goes on from; 0: it starts afresh.
  uint64_t from = 0;
  // All-reduce: bytes that ranks hand over at once, and whether they share memory.
  size_t write_bytes = static_cast<size_t>(-1);
  bool share_memory = true;
  // The bytes that a slot asks servers for before they are due.
  uint64_t pull_window_bytes = kPullWindowBytes;
  // Sees the steps of all slots; null: nobody does.
  StepObserver* observer = nullptr;
  // All that was decided for the job before the run, for its clocks.
  Adjustments adjustments;
  // Number of further shares of a verified step that each task is asked for, after the next one.
  uint32_t further_shares = 0;
  // The order of micro-batches in jobs without a pipeline.
  StageOrder order = StageOrder::kOneForwardOneBackward;
};

struct RunResult {
  // The weights as each slot reads them at the end.
  std::vector<TrainedValues> trained;
  // The counters of each slot's last task.
  std::vector<StrategyCounters> counters;
  // The fingerprints of verified steps that each slot's last task told.
  std::vector<std::vector<v1::VerifyStepRequest>> verified;
  std::vector<std::vector<HookCall>> calls;
  // Held-out examples of the last evaluation, and how many were classified right.
  uint64_t evaluated = 0;
  uint64_t correct = 0;
  // The curve of all slots' evaluations together.
  LossCurve curve;
  // Lines that tasks wrote, of each slot's in order.
  std::vector<std::string> log;
  // The last calls of each slot's training in each of its last groups, in their order; by
  // all-reduce those of all ranks first. And how often the slots met.
  std::vector<std::vector<std::vector<RecordedCall>>> collectives;
  int rounds = 0;
};

}  // namespace muster

#endif  // MUSTER_TESTS_EQUIVALENCE_RUN_OPTIONS_H_
