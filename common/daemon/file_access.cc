#include "common/daemon/file_access.h"

#include <sys/stat.h>

#include <CLI/CLI.hpp>

namespace muster {

void AddFileAccessFlag(CLI::App& app, FileAccess& access) {
  app.add_flag_callback(
      "--group-files", [&access] { access = FileAccess::kGroup; },
      "Let the group of this daemon's user read and write what the daemon keeps (folders 0770, "
      "files 0660): where daemons of different users of one group share the checkpoint root, all "
      "of "
      "them need it. Default: this user only (0700 and 0600).");
}

void LimitFileAccess(FileAccess access) {
  ::umask(access == FileAccess::kUser ? S_IRWXG | S_IRWXO : S_IRWXO);
}

}  // namespace muster
