#include "client/commands/arguments/force_flag.h"

namespace muster {

void AddForceFlag(CLI::App& command, Replace& replace) {
  command.add_flag_callback(
      "--force", [&replace] { replace = Replace::kFiles; }, "Replace existing files");
}

}  // namespace muster
