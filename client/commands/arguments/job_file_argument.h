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

// A job file on the command line, and what is to be changed in it.
struct JobFileArgument {
  // kStandardInput: it is read from there.
  std::string file;
  // To take in place of the data that the file names. Empty: the file's own.
  std::string data;
  // Of single fields, as in "workers=4".
  std::vector<std::string> assignments;

  // Adds them to a command; this must outlive it.
  void AddTo(CLI::App& command);

  // With what a config.json (ReadModelConfig) and the data (FillVocabulary) tell of the model.
  // Errors as ReadJobFile, SetJobField, ReplaceDataPath, CheckUtf8 and ReadModelConfig.
  absl::Status Read(v1::JobSpec& spec) const;
};

}  // namespace muster

#endif  // MUSTER_CLIENT_COMMANDS_ARGUMENTS_JOB_FILE_ARGUMENT_H_
