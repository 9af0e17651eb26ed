#ifndef MUSTER_TESTS_GOLDEN_GOLDEN_RUN_H_
#define MUSTER_TESTS_GOLDEN_GOLDEN_RUN_H_

#include "tests/golden/golden_jobs.h"
#include "tests/golden/golden_record.h"

namespace muster {

// Trains the job in this process, each slot on one thread, and notes the bits that it comes to.
// Fails the test on any error, and where the slots' parameters differ at the end.
GoldenRecord RunGoldenJob(const GoldenJob& job);

}  // namespace muster

#endif  // MUSTER_TESTS_GOLDEN_GOLDEN_RUN_H_
