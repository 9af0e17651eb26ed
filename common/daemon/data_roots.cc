#include "common/daemon/data_roots.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/transport/sockets/host_of.h"

namespace muster {

void AddDataRootFlag(CLI::App& app, std::vector<std::string>& folders) {
  app.add_option("--data-root", folders,
                 "Folder in which jobs may name files (data, tokenizers, checkpoints, initial "
                 "weights); repeat the flag for more folders. Files outside are not opened, not "
                 "even through links. Without this flag jobs may name any file that the daemon's "
                 "user can open, and the daemon listens only on this machine.")
      ->type_name("FOLDER")
      ->allow_extra_args(false);
}

std::vector<std::string> DataRootArguments(const std::vector<std::string>& folders) {
  std::vector<std::string> arguments;
  for (const std::string& folder : folders) arguments.push_back("--data-root=" + folder);
  return arguments;
}

bool IsLoopback(const std::string& listen) {
  const std::string host = HostOf(listen);
  // A name is not looked up: a daemon that listens on one means to be found by it.
  in_addr address = {};
  const bool is_v4 = inet_pton(AF_INET, host.c_str(), &address) == 1;
  return host == "localhost" || host == "::1" || (is_v4 && ntohl(address.s_addr) >> 24 == 127);
}

absl::StatusOr<std::shared_ptr<const FileRoots>> RootsOfDaemon(
    const std::string& listen, const std::vector<std::string>& folders) {
  if (!folders.empty()) return FileRoots::Create(folders);
  if (IsLoopback(listen)) return std::shared_ptr<const FileRoots>();
  return absl::FailedPreconditionError(absl::StrCat(
      "--listen is ", listen,
      ", which other machines reach, and jobs name files for this daemon to "
      "open, but no --data-root bounds them; name the folders of data and checkpoints with it (or "
      "--data-root=/ for all), or listen on 127.0.0.1"));
}

}  // namespace muster
