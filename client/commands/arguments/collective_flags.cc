#include "client/commands/arguments/collective_flags.h"

#include <CLI/CLI.hpp>

#include "absl/strings/str_cat.h"

namespace muster {

void AddCollectiveFlags(CLI::App& command, std::vector<std::string>& worker_flags) {
  command
      .add_option_function<std::string>(
          "--collectives-transport",
          [&worker_flags](const std::string& transport) {
            worker_flags.push_back("--collectives-transport=" + transport);
          },
          "How tasks that train together exchange data: shared_memory (the default) or tcp")
      ->check(CLI::IsMember({"shared_memory", "tcp"}));
  command.add_flag_callback(
      "--collectives-tls", [&worker_flags] { worker_flags.push_back("--collectives-tls"); },
      "Encrypt the TCP connections of tasks that train together");
  command
      .add_option_function<int>(
          "--collectives-connections",
          [&worker_flags](int connections) {
            worker_flags.push_back(absl::StrCat("--collectives-connections=", connections));
          },
          "TCP connections between two tasks that train together. Default: 1")
      ->check(CLI::Range(1, 16));
}

}  // namespace muster
