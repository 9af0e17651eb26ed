#include "client/chaos/faults/socket_owner.h"

#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace muster {
namespace {

// The port of /proc/net/tcp's ADDRESS:PORT, both in hex; 0: it is none.
uint32_t PortOf(absl::string_view address) {
  uint32_t port = 0;
  const size_t colon = address.rfind(':');
  if (colon == absl::string_view::npos || !absl::SimpleHexAtoi(address.substr(colon + 1), &port)) {
    return 0;
  }
  return port;
}

// Returns the names in /proc/PID/fd of the sockets between these ports.
std::set<std::string> SocketNames(uint16_t local, uint16_t remote) {
  std::set<std::string> names;
  // IPv4 addresses may be called through sockets of IPv6.
  for (const char* const table : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    std::ifstream file(table);
    std::string line;
    while (std::getline(file, line)) {
      // sl local_address rem_address st queues timer retransmits uid timeout inode
      std::istringstream words(line);
      std::string slot, from, to, skipped, inode;
      words >> slot >> from >> to;
      for (int i = 0; i < 6; ++i) words >> skipped;
      if (!(words >> inode) || PortOf(from) != local || PortOf(to) != remote) continue;
      names.insert(absl::StrCat("socket:[", inode, "]"));
    }
  }
  return names;
}

}  // namespace

pid_t ConnectionOwner(uint16_t local, uint16_t remote, const std::vector<pid_t>& candidates) {
  namespace fs = std::filesystem;
  const std::set<std::string> names = SocketNames(local, remote);
  for (const pid_t pid : candidates) {
    std::error_code error;
    for (fs::directory_iterator it(absl::StrCat("/proc/", pid, "/fd"), error), end;
         !error && it != end; it.increment(error)) {
      std::error_code closed;
      if (names.count(fs::read_symlink(it->path(), closed).string()) > 0) return pid;
    }
  }
  return 0;
}

}  // namespace muster
