#include "client/commands/arguments/job_file_argument.h"

#include <CLI/CLI.hpp>

#include "client/job/job_file.h"
#include "common/base/status_macros.h"
#include "common/job_data/data_head.h"
#include "common/text/message_utf8.h"
#include "proto/job.pb.h"

namespace muster {

void JobFileArgument::AddTo(CLI::App& command) {
  command
      .add_option("file", file,
                  "Job file: YAML (.yaml), protobuf text format (.textproto) or JSON (.json); - "
                  "reads standard input")
      ->required();
  command.add_option("--data", data,
                     "File or folder to use in place of the data that the job names");
  command
      .add_option("--set", assignments,
                  "Change one field of the job, as in --set optimizer.learning_rate=3e-4. Repeat "
                  "the flag for more fields")
      ->type_name("FIELD=VALUE")
      // One value each, so that the job file may come after it.
      ->allow_extra_args(false);
}

absl::Status JobFileArgument::Read(v1::JobSpec& spec) const {
  MUSTER_RETURN_IF_ERROR(ReadJobFile(file, spec));
  for (const std::string& assignment : assignments) {
    MUSTER_RETURN_IF_ERROR(SetJobField(assignment, spec));
  }
  if (!data.empty()) MUSTER_RETURN_IF_ERROR(ReplaceDataPath(data, spec));
  // Before a cluster is looked for, or files of such a name.
  MUSTER_RETURN_IF_ERROR(CheckUtf8(spec));
  MUSTER_RETURN_IF_ERROR(ReadModelConfig(spec));
  FillVocabulary(spec);
  return absl::OkStatus();
}

}  // namespace muster
