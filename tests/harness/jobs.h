#ifndef MUSTER_TESTS_HARNESS_JOBS_H_
#define MUSTER_TESTS_HARNESS_JOBS_H_

#include <string>

#include "proto/job.pb.h"

namespace muster {

// A job in text format; a mistake in the text fails the test.
v1::JobSpec ParseJobOrDie(const std::string& text);

// A small classifier on synthetic clusters, with two workers under BSP: trains in about a second.
v1::JobSpec SmallJob();

// Folder of the real data sets for tests, or empty where they are not at hand.
std::string SharedData();

}  // namespace muster

#endif  // MUSTER_TESTS_HARNESS_JOBS_H_
