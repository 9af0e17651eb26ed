#ifndef MUSTER_CLIENT_COMMANDS_JOB_FILE_ARGUMENT_H_
#define MUSTER_CLIENT_COMMANDS_JOB_FILE_ARGUMENT_H_

#include <string>

#include "absl/status/status.h"

namespace CLI {
class App;
}  // namespace CLI

namespace muster {

namespace v1 {
class JobSpec;
}  // namespace v1

// A job file on the command line, and the data to take in place of those that it names.
struct JobFileArgument {
  std::string file;
  // Empty: the file's own.
  std::string data;

  // Adds both to a command; this must outlive it.
  void AddTo(CLI::App& command);

  // With what the data tell of the model (FillVocabulary). Errors as ReadJobFile,
  // ReplaceDataPath and CheckUtf8.
  absl::Status Read(v1::JobSpec& spec) const;
};

}  // namespace muster

#endif  // MUSTER_CLIENT_COMMANDS_JOB_FILE_ARGUMENT_H_
