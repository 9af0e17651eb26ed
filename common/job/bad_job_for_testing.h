#ifndef MUSTER_COMMON_JOB_BAD_JOB_FOR_TESTING_H_
#define MUSTER_COMMON_JOB_BAD_JOB_FOR_TESTING_H_

#include <functional>
#include <string>

#include "gmock/gmock.h"
#include "proto/job.pb.h"

namespace muster {

// A job that is refused, for tests: what makes it of a good one, and what is said of it.
struct BadJob {
  const char* name;
  std::function<void(v1::JobSpec&)> spoil;
  ::testing::Matcher<std::string> message;
};

}  // namespace muster

#endif  // MUSTER_COMMON_JOB_BAD_JOB_FOR_TESTING_H_
