#include "client/commands/arguments/force_flag.h"

namespace muster {

void AddForceFlag(CLI::App& command, Replace& replace) {
  command.add_flag_callback(
      "--force", [&replace] { replace = Replace::kFiles; }, "Replace files that are there already");
}

}  // namespace muster
