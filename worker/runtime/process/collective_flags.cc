#include "worker/runtime/process/collective_flags.h"

#include <unistd.h>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/types/optional.h"
#include "common/transport/sockets/own_address.h"
#include "common/transport/sockets/sockets.h"

namespace muster {
namespace {

// Values of --collectives-transport.
constexpr char kSharedMemory[] = "shared_memory";
constexpr char kTcp[] = "tcp";

// Parses FIRST-LAST; nullopt if `text` is anything else.
absl::optional<PortRange> ParsePorts(const std::string& text) {
  const std::vector<std::string> ends = absl::StrSplit(text, '-');
  uint32_t first = 0, last = 0;
  if (ends.size() != 2 || !absl::SimpleAtoi(ends[0], &first) || !absl::SimpleAtoi(ends[1], &last) ||
      first == 0 || first > last || last > 65535) {
    return absl::nullopt;
  }
  return PortRange{static_cast<uint16_t>(first), static_cast<uint16_t>(last)};
}

std::string CheckPorts(const std::string& text) {
  if (ParsePorts(text)) return "";
  return absl::StrCat("'", text, "' is no range of ports; give FIRST-LAST, such as 7100-7107");
}

}  // namespace

void AddCollectiveFlags(CLI::App& app, CollectiveFlags& flags) {
  app.add_option("--collectives-host", flags.host,
                 "Name or address of this machine at which tasks on other machines reach the tasks "
                 "here, to train by all-reduce. Default: the host of --listen; if that means all "
                 "addresses, the one from which this machine calls the coordinator.");
  app.add_option("--collectives-ports", flags.ports,
                 "Ports FIRST-LAST for tasks that train by all-reduce; each task listens on the "
                 "first free one. Has to have one port more than --slots. Default: any free port.")
      ->check(CheckPorts);
  app.add_option("--collectives-advertise", flags.advertised_host,
                 "Name or address that tasks on other machines are told to call, at the same port. "
                 "Default: the one that the task listens on.");
  app.add_option("--collectives-transport", flags.transport,
                 "How tasks on one machine exchange data: shared_memory or tcp. Between machines "
                 "it is always TCP.")
      ->check(CLI::IsMember({kSharedMemory, kTcp}))
      ->capture_default_str();
  app.add_flag("--collectives-tls", flags.tls,
               "Encrypt the TCP connections of tasks that train together. All workers of a job "
               "need the same setting. --tls-authority sets it, too.");
  app.add_option("--collectives-connections", flags.connections,
                 "TCP connections between two tasks that train together. All workers of a job need "
                 "the same number. More than one helps if the network limits each connection.")
      ->check(CLI::Range(1, kMaxDataConnections))
      ->capture_default_str();
}

std::string DefaultCollectivesHost(const std::string& coordinator_address) {
  if (absl::optional<std::string> own = OwnAddressTowards(coordinator_address)) return *own;
  char name[256] = "localhost";
  gethostname(name, sizeof(name) - 1);
  return name;
}

std::vector<std::string> Arguments(const CollectiveFlags& flags) {
  std::vector<std::string> arguments = {"--collectives-transport=" + flags.transport};
  if (!flags.host.empty()) arguments.push_back("--collectives-host=" + flags.host);
  if (!flags.ports.empty()) arguments.push_back("--collectives-ports=" + flags.ports);
  if (!flags.advertised_host.empty()) {
    arguments.push_back("--collectives-advertise=" + flags.advertised_host);
  }
  if (flags.tls) arguments.push_back("--collectives-tls");
  arguments.push_back(absl::StrCat("--collectives-connections=", flags.connections));
  return arguments;
}

HostEndpointOptions EndpointOptions(const CollectiveFlags& flags,
                                    const RpcCredentials& credentials) {
  HostEndpointOptions options;
  options.host = flags.host;
  if (const absl::optional<PortRange> ports = ParsePorts(flags.ports)) {
    options.first_port = ports->first;
    options.last_port = ports->last;
  }
  options.advertised_host = flags.advertised_host;
  options.shared_memory = flags.transport == kSharedMemory;
  options.tls = flags.tls || credentials.encrypted();
  options.connections = flags.connections;
  return options;
}

}  // namespace muster
