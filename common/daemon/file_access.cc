#include "common/daemon/file_access.h"

#include <sys/stat.h>

#include <CLI/CLI.hpp>

namespace muster {

void AddFileAccessFlag(CLI::App& app, FileAccess& access) {
  app.add_flag_callback(
      "--group-files", [&access] { access = FileAccess::kGroup; },
      "Let the group of this daemon's user read and write the daemon's files (folders 0770, files "
      "0660). Needed by all daemons that run as different users of one group and share the "
      "checkpoint root. Default: only this user (0700 and 0600).");
}

void LimitFileAccess(FileAccess access) {
  ::umask(access == FileAccess::kUser ? S_IRWXG | S_IRWXO : S_IRWXO);
}

}  // namespace muster
