#ifndef MUSTER_CLIENT_COMMANDS_ARGUMENTS_JOB_FILE_ARGUMENT_H_
#define MUSTER_CLIENT_COMMANDS_ARGUMENTS_JOB_FILE_ARGUMENT_H_

#include <string>
#include <vector>

#include "absl/status/status.h"

namespace CLI {
class App;
}  // namespace CLI

namespace muster {

namespace v1 {
class JobSpec;
}  // namespace v1

// A job file on the command line, and changes to it.
struct JobFileArgument {
  // Path, or kStandardInput.
  std::string file;
  // Data to use in place of the data that the file names; empty: the file's own.
  std::string data;
  // Changes to single fields, as in "workers=4".
  std::vector<std::string> assignments;

  // Adds the argument and its flags to a command, which this object must outlive.
  void AddTo(CLI::App& command);

  // Reads and changes the job, and adds what a config.json (ReadModelConfig) and the data
  // (FillVocabulary) say of the model, and FillPacking's. Errors are those of ReadJobFile,
  // SetJobField, ReplaceDataPath, CheckUtf8, ReadModelConfig and CheckDataHead.
  absl::Status Read(v1::JobSpec& spec) const;

  // Prints which of the job's data are not on this machine, and what to do, to standard error: the
  // workers may have them.
  void NoteMissingData(const v1::JobSpec& spec) const;
};

}  // namespace muster

#endif  // MUSTER_CLIENT_COMMANDS_ARGUMENTS_JOB_FILE_ARGUMENT_H_
