#ifndef MUSTER_WORKER_RUNTIME_PROCESS_OFFLOAD_FOLDER_FLAG_H_
#define MUSTER_WORKER_RUNTIME_PROCESS_OFFLOAD_FOLDER_FLAG_H_

#include <string>

#include "CLI/CLI.hpp"

namespace muster {

// Adds --offload-folder, which the daemon hands on to the processes of its tasks.
inline void AddOffloadFolderFlag(CLI::App& app, std::string& folder) {
  folder = "/var/tmp";
  app.add_option("--offload-folder", folder,
                 "Folder on a disk for the optimizer state of tasks whose jobs offload it "
                 "(parallelism.zero.offload). A task's file there has no name, and is gone with "
                 "the task.")
      ->capture_default_str();
}

}  // namespace muster

#endif  // MUSTER_WORKER_RUNTIME_PROCESS_OFFLOAD_FOLDER_FLAG_H_
