#ifndef MUSTER_SERVER_COORDINATOR_SIMULATION_ALL_REDUCE_TEST_FIXTURE_H_
#define MUSTER_SERVER_COORDINATOR_SIMULATION_ALL_REDUCE_TEST_FIXTURE_H_

#include <cstdint>
#include <string>

#include "absl/time/time.h"
#include "common/job/test_jobs.h"
#include "gtest/gtest.h"
#include "server/coordinator/simulation/simulated_cluster.h"

namespace muster {

// A simulated cluster with jobs that train by all-reduce.
class AllReduceTest : public ::testing::Test {
 protected:
  static constexpr absl::Duration kElasticWait = absl::Seconds(10);
  // Longest pause between two rounds.
  static constexpr absl::Duration kLongestPause = absl::Seconds(5);

  void AddWorkers(uint32_t count) {
    for (uint32_t i = 0; i < count; ++i) cluster_.AddWorker("w" + std::to_string(i));
  }

  v1::JobSpec Job(uint32_t workers, uint32_t min_workers = 0) {
    v1::JobSpec spec = AllReduceJob();
    spec.set_workers(workers);
    spec.set_min_workers(min_workers);
    return spec;
  }

  // Submits a job and runs it to round 1, step 3. Returns its id.
  std::string Running(const v1::JobSpec& spec) {
    const std::string job = *cluster_.Submit(spec);
    cluster_.MeetAll(job);
    cluster_.ProgressAll(job, 3);
    EXPECT_EQ(cluster_.State(job), v1::RUNNING) << cluster_.Status(job).waiting_for();
    return job;
  }

  // Makes all tasks meet again, after the longest pause that rounds without a step may cause.
  void MeetAfterPause(const std::string& job) {
    cluster_.MeetAll(job);
    cluster_.Pass(kLongestPause);
  }

  v1::TaskOrder Order(const std::string& job, uint32_t slot) { return *cluster_.Order(job, slot); }

  // Returns the next order of a slot whose last task failed.
  v1::TaskOrder AwaitOrder(const std::string& job, uint32_t slot) {
    for (int i = 0; i < 3600 && cluster_.Order(job, slot) == nullptr; ++i) {
      cluster_.Pass(absl::Seconds(1));
    }
    return Order(job, slot);
  }

  std::string Worker(const std::string& job, uint32_t slot) {
    return cluster_.Status(job).tasks(slot).worker_id();
  }

  void Kill(const std::string& id) {
    cluster_.Kill(id);
    cluster_.Pass(kLease + absl::Seconds(1));
  }

  SimulatedCluster cluster_;
};

}  // namespace muster

#endif  // MUSTER_SERVER_COORDINATOR_SIMULATION_ALL_REDUCE_TEST_FIXTURE_H_
