#include "client/commands/collective_flags.h"

#include <CLI/CLI.hpp>

namespace muster {

void AddCollectiveFlags(CLI::App& command, std::vector<std::string>& worker_flags) {
  command
      .add_option_function<std::string>(
          "--collectives-transport",
          [&worker_flags](const std::string& transport) {
            worker_flags.push_back("--collectives-transport=" + transport);
          },
          "What tasks exchange by: shared_memory (the default) or tcp")
      ->check(CLI::IsMember({"shared_memory", "tcp"}));
  command.add_flag_callback(
      "--collectives-tls", [&worker_flags] { worker_flags.push_back("--collectives-tls"); },
      "Encrypt TCP between tasks that train together");
}

}  // namespace muster
