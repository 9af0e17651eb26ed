#ifndef MUSTER_TESTS_INTEGRATION_WRITTEN_JOB_H_
#define MUSTER_TESTS_INTEGRATION_WRITTEN_JOB_H_

#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "proto/job.pb.h"

namespace muster {

// Writes a job file into the test's folder, and returns its path.
inline std::string WriteJob(const std::string& name, const v1::JobSpec& spec) {
  const std::string path = absl::StrCat(::testing::TempDir(), "/", name);
  std::ofstream(path) << spec.DebugString();
  return path;
}

}  // namespace muster

#endif  // MUSTER_TESTS_INTEGRATION_WRITTEN_JOB_H_
