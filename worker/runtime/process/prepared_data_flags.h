#ifndef MUSTER_WORKER_RUNTIME_PROCESS_PREPARED_DATA_FLAGS_H_
#define MUSTER_WORKER_RUNTIME_PROCESS_PREPARED_DATA_FLAGS_H_

#include <unistd.h>

#include <cstdint>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"

namespace muster {

struct PreparedDataFlags {
  std::string folder;
  uint64_t bytes = 0;
};

// Adds --prepared-folder and --prepared-bytes, which the daemon hands on to the processes of its
// tasks.
inline void AddPreparedDataFlags(CLI::App& app, PreparedDataFlags& flags) {
  flags.folder = absl::StrCat("/var/tmp/muster-prepared-", geteuid());
  flags.bytes = uint64_t{64} << 30;
  app.add_option("--prepared-folder", flags.folder,
                 "Folder on a disk for the token files that tasks make of JSON lines, compressed "
                 "data and other programs' tokens before they train. Jobs and workers of this "
                 "machine share it. Default: /var/tmp/muster-prepared-USER, with the user's "
                 "number.");
  app.add_option("--prepared-bytes", flags.bytes,
                 "Most bytes in --prepared-folder, such as 200GiB; the files that were not used "
                 "for the longest time go first. Default: 64GiB.")
      ->transform(CLI::AsSizeValue(false));
}

// Returns the same flags for a program that this one starts.
inline std::vector<std::string> Arguments(const PreparedDataFlags& flags) {
  return {"--prepared-folder=" + flags.folder, absl::StrCat("--prepared-bytes=", flags.bytes)};
}

}  // namespace muster

#endif  // MUSTER_WORKER_RUNTIME_PROCESS_PREPARED_DATA_FLAGS_H_
