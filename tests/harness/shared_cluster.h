#ifndef MUSTER_TESTS_HARNESS_SHARED_CLUSTER_H_
#define MUSTER_TESTS_HARNESS_SHARED_CLUSTER_H_

#include "gtest/gtest.h"
#include "tests/harness/process_cluster.h"

namespace muster {

// One cluster of 2 servers and 2 workers with 2 slots each that serves all tests of a suite: jobs
// must not disturb one another anyway. One suite per program derives from it.
class SharedClusterTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite();
  static void TearDownTestSuite();
  void SetUp() override { ASSERT_NE(cluster_, nullptr); }

  // Trains a job to its end, which is expected to be a good one, and returns its last status.
  static v1::JobStatus Train(const v1::JobSpec& spec);

  static ProcessCluster* cluster_;
};

}  // namespace muster

#endif  // MUSTER_TESTS_HARNESS_SHARED_CLUSTER_H_
