#include "common/rpc/announce_address.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace muster {

absl::Status AnnounceAddress(const std::string& program, const std::string& address,
                             const std::string& address_file) {
  if (!address_file.empty()) {
    const std::string draft = address_file + ".new";
    std::ofstream file(draft);
    file << address << "\n";
    file.close();
    if (!file || std::rename(draft.c_str(), address_file.c_str()) != 0) {
      return absl::InternalError(absl::StrCat("cannot write the address ", address, " to ",
                                              address_file, ": ", strerror(errno)));
    }
  }
  absl::PrintF("%s: listening on %s\n", program, address);
  std::fflush(stdout);
  return absl::OkStatus();
}

}  // namespace muster
