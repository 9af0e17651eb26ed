#include "worker/runtime/collective_flags.h"

namespace muster {
namespace {

// Values of --collectives-transport.
constexpr char kSharedMemory[] = "shared_memory";
constexpr char kTcp[] = "tcp";

}  // namespace

void AddCollectiveFlags(CLI::App& app, CollectiveFlags& flags) {
  app.add_option("--collectives-host", flags.host,
                 "Name or address of this machine under which tasks on other machines reach those "
                 "here, to train by all-reduce. Default: that of --listen, or the machine's name "
                 "where it stands for all addresses.");
  app.add_option(
         "--collectives-transport", flags.transport,
         "What tasks of one machine train with one another by: shared_memory or tcp. Between "
         "machines it is TCP.")
      ->check(CLI::IsMember({kSharedMemory, kTcp}))
      ->capture_default_str();
  app.add_flag("--collectives-tls", flags.tls,
               "Encrypt TCP between tasks that train together; all workers of a job alike. Set by "
               "--tls-authority.");
}

std::vector<std::string> Arguments(const CollectiveFlags& flags) {
  std::vector<std::string> arguments = {"--collectives-host=" + flags.host,
                                        "--collectives-transport=" + flags.transport};
  if (flags.tls) arguments.push_back("--collectives-tls");
  return arguments;
}

HostEndpointOptions EndpointOptions(const CollectiveFlags& flags,
                                    const RpcCredentials& credentials) {
  HostEndpointOptions options;
  options.host = flags.host;
  options.shared_memory = flags.transport == kSharedMemory;
  options.tls = flags.tls || credentials.encrypted();
  return options;
}

}  // namespace muster
