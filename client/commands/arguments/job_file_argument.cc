#include "client/commands/arguments/job_file_argument.h"

#include <CLI/CLI.hpp>
#include <fstream>

#include "client/job/job_file.h"
#include "client/terminal/terminal.h"
#include "common/base/status_macros.h"
#include "common/job_data/data_head.h"
#include "common/text/message_utf8.h"
#include "common/text/printable.h"
#include "proto/job.pb.h"

namespace muster {
namespace {

// The field of an assignment.
std::string FieldOf(const std::string& assignment) {
  return assignment.substr(0, assignment.find('='));
}

// Returns true if a job file begins with a comment, as those in examples/ do.
bool BeginsWithComment(const std::string& file) {
  if (file == kStandardInput) return false;
  std::ifstream stream(file);
  return stream.get() == '#';
}

}  // namespace

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
                  "Change one field of the job, as in --set optimizer.learning_rate=3e-4, or for "
                  "short --set lr=3e-4. Repeat the flag for more fields")
      ->type_name("FIELD=VALUE")
      // One value each, so that the job file may come after it.
      ->allow_extra_args(false);
}

absl::Status JobFileArgument::Read(v1::JobSpec& spec) const {
  MUSTER_RETURN_IF_ERROR(ReadJobFile(file, spec));
  for (const std::string& assignment : assignments) {
    MUSTER_ASSIGN_OR_RETURN(const std::string whole, SetJobField(assignment, spec));
    if (FieldOf(whole) == FieldOf(assignment)) continue;
    PrintError("muster: --set %s sets %s\n", PrintableLine(assignment), FieldOf(whole));
  }
  if (!data.empty()) MUSTER_RETURN_IF_ERROR(ReplaceDataPath(data, spec));
  // Before a cluster is looked for, or files of such a name.
  MUSTER_RETURN_IF_ERROR(CheckUtf8(spec));
  MUSTER_ASSIGN_OR_RETURN(const std::string note, ReadModelConfig(spec));
  if (!note.empty()) PrintError("muster: %s\n", note);
  FillVocabulary(spec);
  FillPacking(spec);
  return CheckDataHead(spec);
}

void JobFileArgument::NoteMissingData(const v1::JobSpec& spec) const {
  const std::vector<std::string> missing = MissingData(spec);
  for (const std::string& path : missing) {
    PrintError(
        "muster: the job reads %s, which is not on this machine; the workers' machines need it\n",
        PrintableLine(path));
  }
  if (missing.empty() || !BeginsWithComment(file)) return;
  PrintError(
      "muster: the comment at the top of %s may say where to get it; `--data PATH` names other "
      "data\n",
      PrintableLine(file));
}

}  // namespace muster
