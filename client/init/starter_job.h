#ifndef MUSTER_CLIENT_INIT_STARTER_JOB_H_
#define MUSTER_CLIENT_INIT_STARTER_JOB_H_

#include <string>

#include "absl/status/statusor.h"
#include "client/init/found_data.h"
#include "client/job_text/print_yaml.h"
#include "proto/job.pb.h"

namespace muster {

struct StarterJob {
  v1::JobSpec spec;
  // What it is wise to look at or to change first.
  YamlComments comments;
};

// A job that trains such a model on the data within minutes, of settings that usually work. An
// empty `model` takes the one that suits the data. InvalidArgument: there is no such model, or it
// reads other data; the message names those that do.
absl::StatusOr<StarterJob> MakeStarterJob(const FoundData& data, const std::string& model);

}  // namespace muster

#endif  // MUSTER_CLIENT_INIT_STARTER_JOB_H_
