#ifndef MUSTER_CLIENT_INIT_STARTER_JOB_H_
#define MUSTER_CLIENT_INIT_STARTER_JOB_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/init/found_data.h"
#include "common/job_text/print_yaml.h"
#include "proto/job.pb.h"

namespace muster {

struct StarterJob {
  v1::JobSpec spec;
  // Comments on the fields to check or to change first, in lines of at most 80 characters.
  YamlComments comments;
  // What was guessed of a table, and all that is left out of it: a sentence each, for the terminal.
  // The comments say the same.
  std::vector<std::string> notes;
};

// Returns a job that trains such a model on the data within minutes, with settings that usually
// work. An empty `model` means the model that suits the data. InvalidArgument: there is no such
// model, or it reads other data, and the message names the models that read this data; or the table
// has no column to predict, or none to learn from.
absl::StatusOr<StarterJob> MakeStarterJob(const FoundData& data, const std::string& model);

}  // namespace muster

#endif  // MUSTER_CLIENT_INIT_STARTER_JOB_H_
