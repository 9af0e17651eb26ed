#ifndef MUSTER_TESTS_GOLDEN_GOLDEN_JOBS_H_
#define MUSTER_TESTS_GOLDEN_GOLDEN_JOBS_H_

#include <string>
#include <vector>

#include "proto/job.pb.h"

namespace muster {

// The holder of a golden job's parameters.
enum class GoldenRoad { kAlone, kServers, kAllReduce };

struct GoldenJob {
  // The fixture file that has the job, without ".txt", and its name there.
  std::string file;
  std::string name;
  GoldenRoad road = GoldenRoad::kAlone;
  v1::JobSpec spec;
};

// All of them, each file's together: deterministic jobs of a few steps. Language models train on
// the text at the path.
std::vector<GoldenJob> GoldenJobs(const std::string& text_path);

}  // namespace muster

#endif  // MUSTER_TESTS_GOLDEN_GOLDEN_JOBS_H_
