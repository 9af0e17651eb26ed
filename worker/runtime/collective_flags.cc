#include "worker/runtime/collective_flags.h"

#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "absl/types/optional.h"
#include "common/transport/own_address.h"

namespace muster {
namespace {

// Values of --collectives-transport.
constexpr char kSharedMemory[] = "shared_memory";
constexpr char kTcp[] = "tcp";

}  // namespace

void AddCollectiveFlags(CLI::App& app, CollectiveFlags& flags) {
  app.add_option("--collectives-host", flags.host,
                 "Name or address of this machine under which tasks on other machines reach those "
                 "here, to train by all-reduce. Default: that of --listen; where it stands for all "
                 "addresses, the one from which this machine calls the coordinator.");
  app.add_option(
         "--collectives-transport", flags.transport,
         "What tasks of one machine train with one another by: shared_memory or tcp. Between "
         "machines it is TCP.")
      ->check(CLI::IsMember({kSharedMemory, kTcp}))
      ->capture_default_str();
  app.add_flag("--collectives-tls", flags.tls,
               "Encrypt TCP between tasks that train together; all workers of a job alike. Set by "
               "--tls-authority.");
  app.add_option("--collectives-connections", flags.connections,
                 "TCP connections over which two tasks that train together move their data; all "
                 "workers of a job alike. Several pay where the network limits each.")
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
  if (flags.tls) arguments.push_back("--collectives-tls");
  arguments.push_back(absl::StrCat("--collectives-connections=", flags.connections));
  return arguments;
}

HostEndpointOptions EndpointOptions(const CollectiveFlags& flags,
                                    const RpcCredentials& credentials) {
  HostEndpointOptions options;
  options.host = flags.host;
  options.shared_memory = flags.transport == kSharedMemory;
  options.tls = flags.tls || credentials.encrypted();
  options.connections = flags.connections;
  return options;
}

}  // namespace muster
