#include "worker/runtime/process/task_program.h"

#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "common/daemon/daemon.h"
#include "common/daemon/data_roots.h"
#include "common/daemon/parse_flags.h"
#include "common/daemon/tls_flags.h"
#include "common/rpc/rpc_credentials.h"
#include "worker/runtime/process/collective_flags.h"
#include "worker/runtime/process/offload_folder_flag.h"
#include "worker/runtime/process/prepared_data_flags.h"
#include "worker/runtime/process/task_process.h"

namespace muster {

int RunTaskProgram(int argc, char** argv, const char* program, const TaskProgramParts& parts) {
  CLI::App app("A task of muster-worker.", program);
  CollectiveFlags flags;
  std::vector<std::string> data_roots;
  TlsFiles tls;
  std::string offload_folder;
  AddCollectiveFlags(app, flags);
  AddDataRootFlag(app, data_roots);
  AddTlsFlags(app, tls);
  AddOffloadFolderFlag(app, offload_folder);
  PreparedDataFlags prepared;
  AddPreparedDataFlags(app, prepared);
  if (const auto code = ParseFlags(app, argc, argv)) return *code;
  if (!data_roots.empty()) {
    auto roots = FileRoots::Create(data_roots);
    if (!roots.ok()) {
      DaemonLog(program, roots.status().message());
      return EXIT_FAILURE;
    }
    ConfineData(*std::move(roots));
  }
  // From the daemon's files, which may have changed since the daemon read them.
  const auto credentials = RpcCredentials::Of(tls, TlsUse::kCallsAndServes);
  if (!credentials.ok()) {
    DaemonLog(program, credentials.status().message());
    return EXIT_FAILURE;
  }
  return RunTaskChild(kControlDescriptor, {.collectives = EndpointOptions(flags, *credentials),
                                           .offload_folder = offload_folder,
                                           .prepared_folder = prepared.folder,
                                           .prepared_bytes = prepared.bytes,
                                           .credentials = *credentials,
                                           .tls = tls,
                                           .make_devices = parts.make_devices,
                                           .wrap_endpoint = parts.wrap_endpoint,
                                           .wrap_client = parts.wrap_client,
                                           .wrap_model = parts.wrap_model});
}

}  // namespace muster
